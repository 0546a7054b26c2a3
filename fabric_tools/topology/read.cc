#include "fabric_tools/topology/read.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace megascale {
namespace {

constexpr size_t kMostFileBytes = 256 << 20;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char block[65536];
  while (file && text.size() <= kMostFileBytes) {
    file.read(block, sizeof block);
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (!file.eof() && text.size() <= kMostFileBytes)
    throw std::invalid_argument(
        fmt::format("the topology {} cannot be read: {}", path, std::strerror(errno ? errno : EIO)));
  if (text.size() > kMostFileBytes)
    throw std::invalid_argument(fmt::format("the topology {} is larger than 256 MiB", path));
  return text;
}

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
