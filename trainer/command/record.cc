#include "trainer/command/record.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "trainer/configuration/toml_reader.h"

namespace megascale::trainer {
namespace {

nlohmann::json describe(const RunConfig& config) {
  return {{"layers", config.model.layers},
          {"heads", config.model.heads},
          {"width", config.model.width},
          {"context", config.model.context},
          {"tied", config.model.tied},
          {"text", config.text},
          {"steps", config.steps},
          {"batch", config.batch},
          {"seed", config.seed},
          {"rate", config.rate},
          {"bucket_bytes", config.bucket_bytes}};
}

}  // namespace

Record::Record(const std::string& losses_file, const std::string& json_file)
    : losses_name_(losses_file),
      json_name_(json_file),
      losses_file_(open(losses_file)),
      json_file_(open(json_file)) {}

Record::File Record::open(const std::string& name) {
  if (name.empty()) return nullptr;
  File file(std::fopen(name.c_str(), "we"));
  if (!file)
    throw ConfigurationError(fmt::format("cannot open {} for writing: {}", name, std::strerror(errno)));
  return file;
}

void Record::add(const StepReport& report) {
  losses_.push_back(report.loss);
  seconds_ += report.seconds;
  exposed_seconds_ += report.exposed_seconds;
  tokens_ += report.tokens;
  if (!losses_file_) return;
  // Hexadecimal: every bit of the loss, so that two runs can be compared with cmp.
  if (std::fprintf(losses_file_.get(), "%a\n", report.loss) < 0 || std::fflush(losses_file_.get()) != 0)
    throw std::runtime_error(fmt::format("cannot write to {}: {}", losses_name_, std::strerror(errno)));
}

void Record::finish(const RunConfig& config, const Training& training) {
  if (!json_file_) return;
  nlohmann::json validations = nlohmann::json::array();
  for (const Validation& v : validations_) validations.push_back({{"step", v.step}, {"loss", v.loss}});
  const nlohmann::json json = {{"version", MEGASCALE_VERSION},
                               {"config", describe(config)},
                               {"ranks", training.ranks()},
                               {"network", training.network()},
                               {"kernels", training.kernels()},
                               {"gradient_bytes", training.gradient_bytes()},
                               {"buckets", training.buckets()},
                               {"seconds", seconds_},
                               {"exposed_seconds", exposed_seconds_},
                               {"tokens_per_second", tokens_per_second()},
                               {"losses", losses_},
                               {"validation", validations}};
  if (std::fprintf(json_file_.get(), "%s\n", json.dump(2).c_str()) < 0 || std::fflush(json_file_.get()) != 0)
    throw std::runtime_error(fmt::format("cannot write to {}: {}", json_name_, std::strerror(errno)));
}

}  // namespace megascale::trainer
