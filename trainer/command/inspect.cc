// What a configuration amounts to: parameters, work, memory, traffic.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "trainer/command/commands.h"
#include "trainer/configuration/run_config.h"
#include "trainer/configuration/toml_reader.h"

namespace megascale::trainer {
namespace {

struct Inspection {
  size_t parameters, embedding, layers;
  double flops_per_token, flops_per_step;
  size_t weight_bytes, gradient_bytes, optimizer_bytes, activation_bytes;
  size_t buckets;
  double sent_bytes;  // by each rank in a step: a ring all-reduce moves 2 (N - 1) / N of the gradients

  size_t memory() const { return weight_bytes + gradient_bytes + optimizer_bytes + activation_bytes; }
};

Inspection inspect(const RunConfig& config, int ranks) {
  Inspection i{};
  const ModelShape& model = config.model;
  i.parameters = parameters_of(model);
  i.embedding = (model.vocabulary * (model.tied ? 1 : 2) + model.context) * model.width;
  i.layers = i.parameters - i.embedding;
  i.flops_per_token = flops_per_token(model);
  i.flops_per_step = i.flops_per_token * static_cast<double>(config.batch * model.context);
  i.weight_bytes = i.gradient_bytes = i.parameters * sizeof(float);
  i.optimizer_bytes = 2 * i.weight_bytes;
  i.activation_bytes = activations_of(model, config.micro_batch_of(ranks)) * sizeof(float);
  i.buckets = (i.gradient_bytes + config.bucket_bytes - 1) / config.bucket_bytes;
  i.sent_bytes = 2.0 * (ranks - 1) / ranks * static_cast<double>(i.gradient_bytes);
  return i;
}

std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }
std::string megabytes(size_t bytes) { return megabytes(static_cast<double>(bytes)); }

void print(const RunConfig& config, int ranks, const Inspection& i) {
  auto row = [](const std::string& name, const std::string& value) {
    fmt::print("{:<28}{:>16}\n", name, value);
  };
  row("parameters", fmt::format("{}", i.parameters));
  row("  embedding and head", fmt::format("{}", i.embedding));
  row("  layers and norms", fmt::format("{}", i.layers));
  row("tokens of a step", fmt::format("{}", config.batch * config.model.context));
  row("FLOPs of a token", fmt::format("{:.3g}", i.flops_per_token));
  row("FLOPs of a step", fmt::format("{:.3g}", i.flops_per_step));
  fmt::print("memory of each of {} rank{}\n", ranks, ranks == 1 ? "" : "s");
  row("  weights", megabytes(i.weight_bytes));
  row("  gradients", megabytes(i.gradient_bytes));
  row("  AdamW's two moments", megabytes(i.optimizer_bytes));
  row("  activations", megabytes(i.activation_bytes));
  row("  together", megabytes(i.memory()));
  row("sent by each rank in a step", megabytes(i.sent_bytes));
  row("  gradient buckets", fmt::format("{}", i.buckets));
}

void write_json(const std::string& file, int ranks, const Inspection& i) {
  const nlohmann::json json = {{"parameters", i.parameters},
                               {"embedding_parameters", i.embedding},
                               {"layer_parameters", i.layers},
                               {"flops_per_token", i.flops_per_token},
                               {"flops_per_step", i.flops_per_step},
                               {"ranks", ranks},
                               {"weight_bytes", i.weight_bytes},
                               {"gradient_bytes", i.gradient_bytes},
                               {"optimizer_bytes", i.optimizer_bytes},
                               {"activation_bytes", i.activation_bytes},
                               {"memory_bytes", i.memory()},
                               {"sent_bytes", i.sent_bytes},
                               {"buckets", i.buckets}};
  std::ofstream out(file);
  out << json.dump(2) << '\n';
  out.close();
  if (!out) throw ConfigurationError("cannot write " + file);
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string config, json;
    int ranks = 1;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Print a configuration's parameters, FLOPs, memory and traffic");
  command->add_option("--config", arguments->config, "the run's TOML file")->required();
  command->add_option("--ranks", arguments->ranks, "processes that share a step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--json", arguments->json, "write the same to this file");
  command->callback([arguments, &exit_code] {
    exit_code = guarded([&] {
      const RunConfig config = read_run_config(arguments->config);
      check_ranks(config, arguments->ranks);
      const Inspection inspection = inspect(config, arguments->ranks);
      print(config, arguments->ranks, inspection);
      if (!arguments->json.empty()) write_json(arguments->json, arguments->ranks, inspection);
      return 0;
    });
  });
}

}  // namespace megascale::trainer
