// Which NICs talk to which: all with all, rail by rail, or ToR by ToR, some or all of them.
#pragma once
#include <vector>

#include "fabric_tools/random.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

using Groups = std::vector<std::vector<uint32_t>>;  // NICs

enum class Within { kAll, kRail, kTor };

// In the order of the topology. Groups of one NIC are kept.
Groups groups_of(const Topology&, Within);
// So many NICs of all groups together, drawn at random; 0: all.
void draw(Groups&, uint32_t nics, Random&);
// Cuts each group into groups of `size`, the last of which may be smaller.
Groups cut(const Groups&, uint32_t size);

}  // namespace megascale::sim
