// Where two NICs meet: the lowest tier of switches by which links join them, up or down. In a fabric by rule
// that is where their packets turn. In an explicit one with valleys (A and C have no switch of a tier above
// both, but B has one with each) it is not: the simulator's packets never go up after they went down, and
// turn higher.
#pragma once
#include <vector>

#include "fabric_tools/topology/topology.h"

namespace megascale {

// Of groups kept as parents: the one that stands for all of the group of `i`. Shortens the way to it.
uint32_t root_of(std::vector<uint32_t>& parents, uint32_t i);

class Reach {
 public:
  explicit Reach(const Topology&);

  // 0: under one ToR; Topology::tiers - 1: through the top; kNone: not at all.
  uint32_t tier(uint32_t nic, uint32_t other_nic) const;
  // Switches with the same number hang together by switches of tiers up to `tier`; so do the hosts below.
  uint32_t group(uint32_t tier, uint32_t switch_index) const { return groups_[tier][switch_index]; }

 private:
  const Topology& topology_;
  std::vector<std::vector<uint32_t>> groups_;  // [tier][switch]
};

}  // namespace megascale
