#include "fabric_tools/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>

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
