// Writes a topology in the explicit TOML form, so that what was discovered can be kept, and edited.
#pragma once
#include <string>

#include "fabric_tools/topology/topology.h"

namespace megascale {

// read_topology_toml() of the text gives the same topology.
std::string explicit_toml(const Topology&);

}  // namespace megascale
