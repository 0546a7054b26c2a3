// ToR sets and pods, found from the cables where a document does not say them.
#pragma once
#include <string>

#include "fabric_tools/topology/topology.h"

namespace megascale {

// Switches on which hosts hang are one set where most of their hosts are the same: a wrong cable does not
// join two sets. Only switches without a set get one. Counts Topology::sets.
void find_sets(Topology&);
// What to say of ToR sets that differ in their number of hosts; nothing where they do not.
std::string unequal_sets(const Topology&);
// A pod is what the second tier joins; needs two tiers. Only switches of these without a pod get one. Counts
// Topology::pods.
void find_pods(Topology&);

}  // namespace megascale
