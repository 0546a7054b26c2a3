#include "fabric_tools/sim/traffic/groups.h"

#include <algorithm>
#include <map>

namespace megascale::sim {

Groups groups_of(const Topology& topology, Within within) {
  std::map<uint32_t, std::vector<uint32_t>> by_key;
  for (uint32_t nic = 0; nic < topology.nics.size(); ++nic) {
    const Nic& n = topology.nics[nic];
    const uint32_t key = within == Within::kAll    ? 0
                         : within == Within::kRail ? n.rail
                                                   : topology.links[n.link].high.index;
    by_key[key].push_back(nic);
  }
  Groups groups;
  for (auto& [key, nics] : by_key) groups.push_back(std::move(nics));
  return groups;
}

static uint32_t nics_in(const Groups& groups) {
  size_t sum = 0;
  for (const auto& group : groups) sum += group.size();
  return static_cast<uint32_t>(sum);
}

void draw(Groups& groups, uint32_t nics, Random& random) {
  const uint32_t all = nics_in(groups);
  if (nics == 0 || nics >= all) return;
  // Each NIC is taken with the chance that just so many are: no list to shuffle, and the order stays.
  uint32_t left = all, wanted = nics;
  for (auto& group : groups) {
    std::erase_if(group, [&](uint32_t) {
      const bool taken = random.below(left--) < wanted;
      if (taken) --wanted;
      return !taken;
    });
  }
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
}

Groups cut(const Groups& groups, uint32_t size) {
  Groups pieces;
  for (const auto& group : groups) {
    for (size_t at = 0; at < group.size(); at += size) {
      const size_t end = std::min(at + size, group.size());
      pieces.emplace_back(group.begin() + static_cast<std::ptrdiff_t>(at),
                          group.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return pieces;
}

}  // namespace megascale::sim
