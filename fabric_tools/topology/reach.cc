#include "fabric_tools/topology/reach.h"

#include <algorithm>
#include <numeric>

namespace megascale {
uint32_t root_of(std::vector<uint32_t>& parents, uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

Reach::Reach(const Topology& t) : topology_(t) {
  std::vector<uint32_t> parents(t.switches.size());
  std::iota(parents.begin(), parents.end(), 0u);
  std::vector<std::vector<uint32_t>> links(t.tiers);  // by the tier of their higher end
  for (uint32_t i = 0; i < t.links.size(); ++i) {
    const Link& link = t.links[i];
    if (link.low.kind == End::Kind::kNic) continue;
    links[std::max(t.switches[link.low.index].tier, t.switches[link.high.index].tier)].push_back(i);
  }
  for (uint32_t tier = 0; tier < t.tiers; ++tier) {
    for (const uint32_t i : links[tier]) {
      const uint32_t low = root_of(parents, t.links[i].low.index);
      const uint32_t high = root_of(parents, t.links[i].high.index);
      parents[std::max(low, high)] = std::min(low, high);
    }
    std::vector<uint32_t>& groups = groups_.emplace_back(parents.size());
    for (uint32_t i = 0; i < parents.size(); ++i) groups[i] = root_of(parents, i);
  }
}

uint32_t Reach::tier(uint32_t nic, uint32_t other) const {
  const uint32_t a = topology_.links[topology_.nics[nic].link].high.index;
  const uint32_t b = topology_.links[topology_.nics[other].link].high.index;
  for (uint32_t tier = 0; tier < groups_.size(); ++tier) {
    if (groups_[tier][a] == groups_[tier][b]) return tier;
  }
  return kNone;
}

}  // namespace megascale
