#include "fabric_tools/topology/topology.h"

#include <fmt/format.h>

namespace megascale {

std::string nic_name(const Topology& t, uint32_t nic) {
  return fmt::format("{}/{}", t.hosts[t.nics[nic].host].name, t.nics[nic].rail);
}

}  // namespace megascale
