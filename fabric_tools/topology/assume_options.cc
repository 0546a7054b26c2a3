#include "fabric_tools/topology/assume_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "fabric_tools/topology/bounds.h"

namespace megascale {
namespace {

Rate rate(const char* option, const std::string& text) {
  const std::optional<Rate> rate = parse_rate(text);
  if (!rate || !is_allowed(*rate))
    throw std::invalid_argument(fmt::format("{} `{}' must be 1M to 100T bit/s, as 200G", option, text));
  return *rate;
}

}  // namespace

Assumed AssumeOptions::assumed() const {
  const std::optional<Duration> time = parse_duration(delay);
  if (!time || !is_allowed(*time))
    throw std::invalid_argument(fmt::format("--assume-delay `{}' must be 0s to 1s, as 500ns", delay));
  return {nics, megascale::rate("--assume-host-rate", host_rate), megascale::rate("--assume-rate", rate),
          *time};
}

void add_assume_options(CLI::App& command, AssumeOptions& o) {
  const char* group = "Where the topology tells none (Slurm, topograph)";
  command
      .add_option("--assume-nics", o.nics, "NICs of a host; with more than 1, a ToR for each below a leaf")
      ->check(CLI::Range(1u, kMostRails))
      ->capture_default_str()
      ->group(group);
  command.add_option("--assume-host-rate", o.host_rate, "of a NIC's cable, bit/s")
      ->capture_default_str()
      ->group(group);
  command.add_option("--assume-rate", o.rate, "of a cable between switches, bit/s")
      ->capture_default_str()
      ->group(group);
  command.add_option("--assume-delay", o.delay, "of a cable")->capture_default_str()->group(group);
}

}  // namespace megascale
