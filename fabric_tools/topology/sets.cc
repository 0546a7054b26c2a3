#include "fabric_tools/topology/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "fabric_tools/topology/reach.h"

namespace megascale {
namespace {

// The switches of a host, each once.
std::vector<uint32_t> switches_of(const Topology& t, const Host& host) {
  std::vector<uint32_t> switches;
  for (uint32_t nic = host.first_nic; nic < host.first_nic + host.nics; ++nic) {
    if (t.nics[nic].link != kNone) switches.push_back(t.links[t.nics[nic].link].high.index);
  }
  std::sort(switches.begin(), switches.end());
  switches.erase(std::unique(switches.begin(), switches.end()), switches.end());
  return switches;
}

// Numbers `names` in order of appearance, from `first` on.
uint32_t number(std::map<uint32_t, uint32_t>& numbers, uint32_t name, uint32_t first) {
  return numbers.emplace(name, first + static_cast<uint32_t>(numbers.size())).first->second;
}

}  // namespace

void find_sets(Topology& t) {
  std::vector<uint32_t> hosts_on(t.switches.size(), 0), parents(t.switches.size());
  std::iota(parents.begin(), parents.end(), 0u);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> common;
  for (const Host& host : t.hosts) {
    const std::vector<uint32_t> switches = switches_of(t, host);
    for (size_t i = 0; i < switches.size(); ++i) {
      ++hosts_on[switches[i]];
      for (size_t j = i + 1; j < switches.size(); ++j) ++common[{switches[i], switches[j]}];
    }
  }
  for (const auto& [pair, hosts] : common) {
    if (hosts * 2 <= std::min(hosts_on[pair.first], hosts_on[pair.second])) continue;
    const uint32_t a = root_of(parents, pair.first), b = root_of(parents, pair.second);
    parents[std::max(a, b)] = std::min(a, b);
  }
  uint32_t said = 0;
  for (const Switch& s : t.switches) said = s.set == kNone ? said : std::max(said, s.set + 1);
  std::map<uint32_t, uint32_t> numbers;
  for (uint32_t i = 0; i < t.switches.size(); ++i) {
    if (hosts_on[i] > 0 && t.switches[i].set == kNone)
      t.switches[i].set = number(numbers, root_of(parents, i), said);
  }
  t.sets = said + static_cast<uint32_t>(numbers.size());
}

std::string unequal_sets(const Topology& t) {
  std::map<uint32_t, uint32_t> hosts;
  for (uint32_t host = 0; host < t.hosts.size(); ++host) ++hosts[set_of_host(t, host)];
  const auto by_size = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(hosts.begin(), hosts.end(), by_size);
  if (hosts.empty() || least->second == most->second) return "";
  return fmt::format("ToR sets are unequal: set {} has {} hosts, set {} has {}", least->first, least->second,
                     most->first, most->second);
}

void find_pods(Topology& t) {
  t.pods = 0;
  if (t.tiers < 2) return;
  for (const Switch& s : t.switches) t.pods = s.pod == kNone ? t.pods : std::max(t.pods, s.pod + 1);
  const Reach reach(t);
  std::map<uint32_t, uint32_t> numbers;
  for (uint32_t i = 0; i < t.switches.size(); ++i) {
    if (t.switches[i].tier <= 1 && t.switches[i].pod == kNone)
      t.switches[i].pod = number(numbers, reach.group(1, i), t.pods);
  }
  t.pods += static_cast<uint32_t>(numbers.size());
}

}  // namespace megascale
