#include "fabric_tools/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace megascale {

std::string nic_name(const Topology& t, uint32_t nic) {
  return fmt::format("{}/{}", t.hosts[t.nics[nic].host].name, t.nics[nic].rail);
}

std::string name_of(const Topology& t, const End& end) {
  return end.kind == End::Kind::kNic ? nic_name(t, end.index) : t.switches[end.index].name;
}

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c >= 0x7f; }, '?');
  return text;
}

std::string tier_name(uint32_t tier, size_t tiers) {
  if (tier == 0) return "tor";
  if (tier == 1) return tiers == 2 ? "spine" : "agg";
  return tier == 2 && tiers == 3 ? "core" : fmt::format("tier{}", tier);
}

std::vector<uint32_t> all_hosts(const Topology& t) {
  std::vector<uint32_t> hosts(t.hosts.size());
  std::iota(hosts.begin(), hosts.end(), 0u);
  return hosts;
}

std::vector<uint32_t> hosts_named(const Topology& t, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, uint32_t> by_name;
  for (uint32_t i = 0; i < t.hosts.size(); ++i) by_name.emplace(t.hosts[i].name, i);
  std::vector<uint32_t> hosts;
  for (const std::string& name : names) {
    const auto at = by_name.find(name);
    if (at == by_name.end())
      throw std::invalid_argument(
          fmt::format("host `{}` is not in the topology {}, whose hosts are called like `{}`",
                      printable(name).substr(0, 80), t.name, t.hosts[0].name));
    hosts.push_back(at->second);
  }
  return hosts;
}

uint32_t set_of_host(const Topology& t, uint32_t host) {
  std::vector<uint32_t> sets;
  for (uint32_t i = 0; i < t.hosts[host].nics; ++i) sets.push_back(t.tor_of(t.hosts[host].first_nic + i).set);
  return most_frequent(std::move(sets));
}

uint32_t most_frequent(std::vector<uint32_t> values) {
  std::sort(values.begin(), values.end());
  uint32_t best = kNone;
  size_t most = 0;
  for (size_t i = 0; i < values.size();) {
    const auto end = std::upper_bound(values.begin(), values.end(), values[i]);
    const auto count = static_cast<size_t>(end - values.begin()) - i;
    if (count > most) most = count, best = values[i];
    i += count;
  }
  return best;
}

}  // namespace megascale
