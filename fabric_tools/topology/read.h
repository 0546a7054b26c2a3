// Reads a topology from a file: this project's TOML (docs/topology.md), Slurm's topology.conf, or the graph
// JSON of NVIDIA's topograph.
#pragma once
#include <string>
#include <string_view>

#include "fabric_tools/topology/topology.h"

namespace megascale {

// Slurm and topograph tell which host hangs below which switch, and nothing else. The rest is assumed, and
// Topology::notes says so.
struct Assumed {
  uint32_t nics = 1;  // of a host; with more, each leaf switch stands for a set with a ToR for each rail
  Rate host_rate = Rate::gigabits(200), rate = Rate::gigabits(400);  // of a NIC's cable, and of those above
  Duration delay = 1us;                                              // of a cable
};

// *.toml, *.conf (Slurm) or *.json (topograph). The result is checked (check.h). Throws
// std::invalid_argument: which file, which line, what is wrong and what would be right.
Topology read_topology(const std::string& path, const Assumed& = {});

// The same from a text; `source` is what complaints call it.
Topology read_topology_toml(std::string_view text, const std::string& source);
Topology read_topology_slurm(std::string_view text, const std::string& source, const Assumed&);
Topology read_topology_topograph(std::string_view text, const std::string& source, const Assumed&);

}  // namespace megascale
