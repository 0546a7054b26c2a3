#include "fabric_tools/sim/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace megascale::sim {
namespace {

uint64_t key(const End& end) { return uint64_t{end.index} * 2 + (end.kind == End::Kind::kNic ? 1 : 0); }

// Links by the names of their ends.
class LinkNames {
 public:
  explicit LinkNames(const Topology& topology) : topology_(topology) {
    for (uint32_t l = 0; l < topology.links.size(); ++l) {
      const Link& link = topology.links[l];
      ends_.emplace(name_of(topology, link.low), link.low);
      ends_.emplace(name_of(topology, link.high), link.high);
      links_.emplace(std::minmax({key(link.low), key(link.high)}), l);  // the first of several between two
    }
  }

  uint32_t find(const Fault& fault) const {
    const std::string about =
        fmt::format("fault at {} s on topology '{}': ", seconds(fault.at), topology_.name);
    const End low = end(fault.low, about);
    if (fault.high.empty()) {
      if (low.kind == End::Kind::kNic) return topology_.nics[low.index].link;
      throw std::invalid_argument(
          fmt::format("{}'{}' is a switch: name the other end of the link too", about, fault.low));
    }
    const auto found = links_.find(std::minmax({key(low), key(end(fault.high, about))}));
    if (found != links_.end()) return found->second;
    throw std::invalid_argument(fmt::format("{}no link joins '{}' and '{}'", about, fault.low, fault.high));
  }

 private:
  End end(const std::string& name, const std::string& about) const {
    const auto found = ends_.find(name);
    if (found != ends_.end()) return found->second;
    throw std::invalid_argument(fmt::format(
        "{}nothing has the name '{}'; switches are called like '{}', NICs like '{}' or by number, 0 to {}",
        about, name, topology_.switches.front().name, nic_name(topology_, 0), topology_.nics.size() - 1));
  }

  const Topology& topology_;
  std::unordered_map<std::string, End> ends_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> links_;
};

void check_numbers(const Fault& fault) {
  const bool possible = fault.rate == 0 || (fault.rate >= 0.001 && fault.rate <= 1);
  if (possible && fault.at >= 0s && (!fault.lasts || *fault.lasts > 0s)) return;
  throw std::invalid_argument(
      fmt::format("a fault on '{}' must be at 0 s or later, last longer than 0 s and leave a share of the "
                  "rate, 0 (down) or 0.001 to 1; this one is at {} s, lasts {} s and leaves {}",
                  fault.low, seconds(fault.at), fault.lasts ? seconds(*fault.lasts) : 0.0, fault.rate));
}

}  // namespace

std::vector<uint32_t> links_of(const Topology& topology, const std::vector<Fault>& faults) {
  std::vector<uint32_t> links;
  if (faults.empty()) return links;
  if (topology.links.empty()) throw std::invalid_argument("a topology without links has no faults");
  const LinkNames names(topology);
  for (const Fault& fault : faults) {
    check_numbers(fault);
    links.push_back(names.find(fault));
  }
  return links;
}

Faults::Faults(const Topology& topology, const Model& model, EventQueue& events, Fabric& fabric,
               Endpoints& endpoints)
    : topology_(topology),
      events_(events),
      fabric_(fabric),
      endpoints_(endpoints),
      reroute_(ticks(model.switches.reroute)) {
  for (const uint32_t link : links_of(topology, model.faults)) {
    const auto index = static_cast<uint32_t>(faults_.size());
    const Fault& fault = model.faults[index];
    faults_.push_back({link, fault.rate});
    events_.push(ticks(fault.at), EventKind::kFault, 2 * index);
    if (fault.lasts) events_.push(ticks(fault.at + *fault.lasts), EventKind::kFault, 2 * index + 1);
  }
}

void Faults::on_event(uint32_t index) {
  const OnLink& fault = faults_[index / 2];
  std::multiset<double>& rates = now_[fault.link];
  if (index % 2 == 0) rates.insert(fault.rate);
  else rates.erase(rates.find(fault.rate));
  const bool was_usable = fabric_.link_usable(fault.link);
  fabric_.set_link(fault.link, rates.empty() ? 1 : *rates.begin());
  if (was_usable == fabric_.link_usable(fault.link)) return;
  events_.push(events_.now() + reroute_, EventKind::kReroute, fault.link);
  const End low = topology_.links[fault.link].low;
  if (!was_usable && low.kind == End::Kind::kNic) endpoints_.link_returned(low.index);
}

}  // namespace megascale::sim
