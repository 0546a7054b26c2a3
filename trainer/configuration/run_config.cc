#include "trainer/configuration/run_config.h"

#include <fmt/format.h>

#include <bit>
#include <initializer_list>

#include "trainer/configuration/toml_reader.h"
#include "trainer/random/counter.h"

namespace megascale::trainer {
namespace {

void read_model(TomlReader* toml, ModelShape* model) {
  toml->read("model.layers", &model->layers, 1, 1024);
  toml->read("model.heads", &model->heads, 1, 1024);
  toml->read("model.width", &model->width, 1, 65536);
  toml->read("model.context", &model->context, 1, 65536);
  toml->read("model.tied", &model->tied);
  if (model->width % model->heads != 0)
    toml->complain("model.width", fmt::format("model.width is {}, which does not divide by model.heads, {}",
                                              model->width, model->heads));
}

void read_training(TomlReader* toml, RunConfig* config) {
  toml->read("train.steps", &config->steps, 1, 1000000000);
  toml->read("train.batch", &config->batch, 1, 1 << 20);
  toml->read("train.micro_batch", &config->micro_batch, 0, 1 << 20);
  toml->read_seed("train.seed", &config->seed);
  toml->read("train.threads", &config->threads, 0, 1024);
}

void read_optimizer(TomlReader* toml, RunConfig* config) {
  toml->read("optimizer.rate", &config->rate, 0, 10);
  toml->read("optimizer.final_rate", &config->final_rate, 0, 10);
  toml->read("optimizer.warmup", &config->warmup, 0, 1000000000);
  toml->read("optimizer.beta1", &config->adamw.beta1, 0, 0.999999);
  toml->read("optimizer.beta2", &config->adamw.beta2, 0, 0.999999);
  toml->read("optimizer.epsilon", &config->adamw.epsilon, 1e-20, 1);
  toml->read("optimizer.weight_decay", &config->adamw.weight_decay, 0, 10);
  toml->read("optimizer.clip", &config->adamw.clip, 0, 1e6);
  if (config->final_rate > config->rate)
    toml->complain("optimizer.final_rate", fmt::format("optimizer.final_rate is {}, above optimizer.rate, {}",
                                                       config->final_rate, config->rate));
}

}  // namespace

RunConfig read_run_config(const std::filesystem::path& file) {
  RunConfig config;
  TomlReader toml(file);
  read_model(&toml, &config.model);
  toml.read("data.text", &config.text);
  toml.read("data.validation_share", &config.validation_share, 0.001, 0.5);
  read_training(&toml, &config);
  read_optimizer(&toml, &config);
  toml.read("parallel.bucket_bytes", &config.bucket_bytes, 4096, size_t{1} << 30);
  toml.read("report.validation_every", &config.validation_every, 0, 1000000000);
  toml.read("report.validation_sequences", &config.validation_sequences, 1, 1 << 20);
  if (config.text.empty()) toml.complain("data.text", "data.text is empty; name a file, or \"king-james\"");
  toml.finish();
  if (config.text != kKingJames) config.text = (file.parent_path() / config.text).string();
  return config;
}

size_t RunConfig::micro_batch_of(int ranks) const {
  return micro_batch == 0 ? batch / static_cast<size_t>(ranks) : micro_batch;
}

void check_ranks(const RunConfig& config, int ranks) {
  const auto n = static_cast<size_t>(ranks);
  if (config.batch % n != 0)
    throw ConfigurationError(
        fmt::format("train.batch is {}, which does not divide by {} ranks; each rank takes the same share",
                    config.batch, ranks));
  const size_t share = config.batch / n;
  if (share % config.micro_batch_of(ranks) != 0)
    throw ConfigurationError(
        fmt::format("train.micro_batch is {}, which does not divide a rank's share of {} sequences",
                    config.micro_batch, share));
  if (config.validation_sequences < n)
    throw ConfigurationError(fmt::format("report.validation_sequences is {}, fewer than {} ranks",
                                         config.validation_sequences, ranks));
}

uint64_t RunConfig::fingerprint() const {
  uint64_t value = 0;
  auto mix_in = [&](uint64_t part) { value = counter_random(value, part, 0); };
  for (const size_t part : {model.layers, model.heads, model.width, model.context, model.vocabulary,
                            static_cast<size_t>(model.tied), steps, batch, micro_batch, warmup, bucket_bytes,
                            validation_every, validation_sequences})
    mix_in(part);
  mix_in(seed);
  for (const double part : {validation_share, rate, final_rate, adamw.beta1, adamw.beta2, adamw.epsilon,
                            adamw.weight_decay, adamw.clip})
    mix_in(std::bit_cast<uint64_t>(part));
  return value;
}

}  // namespace megascale::trainer
