#include "fabric_tools/topology/read.h"

#include <fmt/format.h>

#include <stdexcept>

#include "fabric_tools/file.h"

namespace megascale {
namespace {

constexpr size_t kMostFileBytes = 256 << 20;

std::string text_of_file(const std::string& path) { return read_file("the topology", path, kMostFileBytes); }

}  // namespace

Topology read_topology(const std::string& path, const Assumed& assumed) {
  if (path.ends_with(".toml")) return read_topology_toml(text_of_file(path), path);
  if (path.ends_with(".conf")) return read_topology_slurm(text_of_file(path), path, assumed);
  if (path.ends_with(".json")) return read_topology_topograph(text_of_file(path), path, assumed);
  throw std::invalid_argument(fmt::format(
      "{} is no topology by its name: *.toml (docs/topology.md), *.conf (Slurm) or *.json (topograph)",
      path));
}

}  // namespace megascale
