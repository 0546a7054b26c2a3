#include "fabric_tools/placement/formats.h"

#include <fmt/format.h>

#include <iterator>

namespace megascale {

std::string hostfile(const Placement& p) {
  std::string text;
  for (const uint32_t host : p.hosts)
    text += fmt::format("{} slots={}\n", p.topology->hosts[host].name, p.gpus_per_host);
  return text;
}

std::string slurm_hostfile(const Placement& p) {
  std::string text;
  for (const uint32_t host : p.hosts) {
    for (uint32_t gpu = 0; gpu < p.gpus_per_host; ++gpu) text += p.topology->hosts[host].name + '\n';
  }
  return text;
}

std::string kubernetes_labels(const Placement& p, const Parallel& parallel) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (uint32_t i = 0; i < p.hosts.size(); ++i) {
    const Host& host = p.topology->hosts[p.hosts[i]];
    const Switch& tor = p.topology->tor_of(host.first_nic);
    fmt::format_to(out, "kubectl label --overwrite node {} megascale/position={} megascale/stage={}",
                   host.name, i, i * p.gpus_per_host / (parallel.tensor * parallel.data));
    fmt::format_to(out, " megascale/set={}", set_of_host(*p.topology, p.hosts[i]));
    if (tor.pod != kNone) fmt::format_to(out, " megascale/pod={}", tor.pod);
    text += '\n';
  }
  return text;
}

}  // namespace megascale
