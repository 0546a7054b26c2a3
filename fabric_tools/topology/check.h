// What must hold of every topology, wherever it came from, before anything runs on it.
#pragma once
#include "fabric_tools/topology/topology.h"

namespace megascale {

enum class Sets { kEqual, kAny };  // kAny: sets of unequal size are noted, not refused

// Throws std::invalid_argument, naming the first few of whatever is wrong of a kind: duplicate names, NICs
// without a link or with two, links that do not lead upward or whose rate or delay is absurd, a NIC on the
// ToR of another rail, ToR sets of unequal size, hosts between which there is no way up and down (on one
// rail, where the rails do not meet).
void check(Topology&, Sets = Sets::kEqual);

}  // namespace megascale
