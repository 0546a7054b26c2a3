// Trains: as one rank of a job under the launch contract, alone, or by starting the ranks on this host.
#include <fmt/format.h>
#include <omp.h>

#include <cstdlib>

#include "plugin/host/communicator.h"
#include "plugin/host/launch.h"
#include "trainer/command/commands.h"
#include "trainer/command/loss_curve.h"
#include "trainer/command/progress.h"
#include "trainer/command/record.h"
#include "trainer/command/text.h"
#include "trainer/configuration/toml_reader.h"
#include "trainer/loop/training.h"
#include "trainer/parallel/plugin_group.h"

namespace megascale::trainer {
namespace {

struct RunArguments {
  std::string config, plugin, json, losses;
  int ranks = 0;  // 0: not said
  size_t steps = 0;
};

bool under_launch_contract() {
  for (const char* name : {"MEGASCALE_RANK", "MEGASCALE_RANKS"}) {
    const char* value = std::getenv(name);
    if (value && *value) return true;
  }
  return false;
}

RunConfig load(const RunArguments& arguments) {
  RunConfig config = read_run_config(arguments.config);
  if (arguments.steps > 0) config.steps = arguments.steps;
  return config;
}

// Cores shared out to all ranks: right when they are on one host, careful when they are not.
int threads_of(const RunConfig& config, int ranks) {
  if (config.threads > 0) return static_cast<int>(config.threads);
  return std::max(1, omp_get_num_procs() / ranks);
}

host::CommunicatorOptions place_in_job(const RunArguments& arguments) {
  host::CommunicatorOptions place;
  try {
    place = host::options_from_environment();
  } catch (const std::runtime_error& error) {
    throw ConfigurationError(error.what());
  }
  if (arguments.ranks > 0 && arguments.ranks != place.ranks)
    throw ConfigurationError(
        fmt::format("--ranks is {}, but MEGASCALE_RANKS in the environment is {}; give one of them",
                    arguments.ranks, place.ranks));
  place.plugin = arguments.plugin;
  return place;
}

void introduce(const RunConfig& config, const Training& training, Progress* progress) {
  progress->say(fmt::format("{} parameters, {} layers of width {}, context {}; {} steps of {} sequences",
                            training.gradient_bytes() / sizeof(float), config.model.layers,
                            config.model.width, config.model.context, config.steps, config.batch));
  progress->say(
      fmt::format("{} rank{}, {}", training.ranks(), training.ranks() == 1 ? "" : "s", training.kernels()));
  if (training.ranks() > 1)
    progress->say(fmt::format("network {}: {:.1f} MB of gradients a step, in {} buckets", training.network(),
                              static_cast<double>(training.gradient_bytes()) / 1e6, training.buckets()));
}

void conclude(const Record& record, double validation, Progress* progress) {
  progress->say("");
  progress->say(loss_curve(record.losses(), {}, terminal_draws_unicode()));
  progress->say(fmt::format("loss {:.4f} -> {:.4f}, validation {:.4f} nats/byte", record.losses().front(),
                            record.losses().back(), validation));
  progress->say(fmt::format(
      "{} steps in {:.1f} s, {:.0f} tokens/s, {:.1f} s ({:.1f} %) standing still for the network",
      record.losses().size(), record.seconds(), record.tokens_per_second(), record.exposed_seconds(),
      record.seconds() > 0 ? 100 * record.exposed_seconds() / record.seconds() : 0.0));
}

int train(const RunArguments& arguments, const RunConfig& config, const host::CommunicatorOptions& place) {
  check_ranks(config, place.ranks);
  const std::unique_ptr<TokenFile> text = open_text(config);
  const bool first = place.rank == 0;
  Record record(first ? arguments.losses : "", first ? arguments.json : "");
  Progress progress(config.steps, !first);
  Training training(config, make_cpu_kernels(threads_of(config, place.ranks)),
                    place.ranks == 1 ? make_solo_group() : make_plugin_group(place), text->tokens());
  introduce(config, training, &progress);
  Validation validation;
  while (training.steps_done() < config.steps) {
    const StepReport report = training.step();
    progress.step(report);
    record.add(report);
    const bool due = config.validation_every > 0 && report.step % config.validation_every == 0;
    if (!due && report.step != config.steps) continue;
    validation = {report.step, training.validation_loss()};
    record.add(validation);
    progress.say(fmt::format("step {}  validation loss {:.4f}", validation.step, validation.loss));
  }
  conclude(record, validation.loss, &progress);
  record.finish(config, training);
  return 0;
}

// Everything that can be found wrong is found here, once, rather than by each rank.
int launch(const RunArguments& arguments, const RunConfig& config) {
  check_ranks(config, arguments.ranks);
  open_text(config);
  host::LocalLaunch job;
  job.ranks = arguments.ranks;
  job.arguments = {"run", "--config=" + arguments.config};
  auto pass_on = [&](const char* option, const std::string& value) {
    if (!value.empty()) job.arguments.push_back(std::string(option) + "=" + value);
  };
  pass_on("--plugin", arguments.plugin);
  pass_on("--json", arguments.json);
  pass_on("--losses", arguments.losses);
  if (arguments.steps > 0) pass_on("--steps", std::to_string(arguments.steps));
  const host::LaunchResult result = host::local_ranks(job);
  if (result.exit_code == 0) return 0;
  fmt::print(stderr, "megascale-train: {}\n", result.failure);
  return result.exit_code == 2 ? 2 : 1;
}

int run(const RunArguments& arguments) {
  const RunConfig config = load(arguments);
  if (under_launch_contract()) return train(arguments, config, place_in_job(arguments));
  if (arguments.ranks > 1) return launch(arguments, config);
  return train(arguments, config, {});
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Train a model");
  command->add_option("--config", arguments->config, "the run's TOML file")->required();
  command->add_option("--ranks", arguments->ranks, "processes to start on this host (default: 1)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--steps", arguments->steps, "steps, instead of the file's")
      ->check(CLI::Range(size_t{1}, size_t{1000000000}));
  command->add_option("--plugin", arguments->plugin,
                      "network plugin, a path or a name as in NCCL_NET_PLUGIN (default: our own)");
  command->add_option("--losses", arguments->losses,
                      "write the loss of each step to this file, hexadecimal, bit for bit");
  command->add_option("--json", arguments->json, "write losses, speed and configuration to this file");
  command->footer(
      "With MEGASCALE_RANK, MEGASCALE_RANKS, MEGASCALE_LOCAL_RANK and MEGASCALE_RENDEZVOUS (host:port of "
      "rank 0) in\n"
      "the environment it is that rank of a job that someone else starts, on one host or on many. Otherwise "
      "it starts\n"
      "--ranks processes here. The keys of the configuration are described in docs/training.md.");
  command->callback([arguments, &exit_code] { exit_code = guarded([&] { return run(*arguments); }); });
}

}  // namespace megascale::trainer
