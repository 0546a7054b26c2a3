#include "fabric_tools/sim/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace megascale::sim {
namespace {

// The first link between the two, or that of the NIC when `high` is empty.
uint32_t find_link(const Topology& topology, const Fault& fault) {
  bool low_known = false, high_known = fault.high.empty();
  for (uint32_t l = 0; l < topology.links.size(); ++l) {
    const Link& link = topology.links[l];
    const std::string low = name_of(topology, link.low), high = name_of(topology, link.high);
    low_known |= low == fault.low || high == fault.low;
    high_known |= low == fault.high || high == fault.high;
    if (fault.high.empty()
            ? link.low.kind == End::Kind::kNic && low == fault.low
            : (low == fault.low && high == fault.high) || (high == fault.low && low == fault.high)) {
      return l;
    }
  }
  const std::string about = fmt::format("fault at {} s on topology '{}': ", seconds(fault.at), topology.name);
  if (!low_known || !high_known) {
    throw std::invalid_argument(fmt::format(
        "{}nothing has the name '{}'; switches are called like '{}', NICs like '{}'", about,
        low_known ? fault.high : fault.low, topology.switches.empty() ? "" : topology.switches[0].name,
        topology.nics.empty() ? "" : nic_name(topology, 0)));
  }
  throw std::invalid_argument(
      fault.high.empty()
          ? fmt::format("{}'{}' is a switch: name the other end of the link too", about, fault.low)
          : fmt::format("{}no link joins '{}' and '{}'", about, fault.low, fault.high));
}

}  // namespace

uint32_t link_of(const Topology& topology, const Fault& fault) {
  if (!(fault.rate >= 0 && fault.rate <= 1) || fault.at < 0s || (fault.lasts && *fault.lasts <= 0s)) {
    throw std::invalid_argument(
        fmt::format("a fault on '{}' must be at 0 s or later, last longer than 0 s and leave a share of the "
                    "rate from 0 (down) to 1; this one is at {} s, lasts {} s and leaves {}",
                    fault.low, seconds(fault.at), fault.lasts ? seconds(*fault.lasts) : 0.0, fault.rate));
  }
  return find_link(topology, fault);
}

Faults::Faults(const Topology& topology, const Model& model, EventQueue& events, Fabric& fabric,
               Endpoints& endpoints)
    : topology_(topology),
      events_(events),
      fabric_(fabric),
      endpoints_(endpoints),
      reroute_(ticks(model.switches.reroute)) {
  for (const Fault& fault : model.faults) {
    const auto index = static_cast<uint32_t>(faults_.size());
    faults_.push_back({link_of(topology, fault), fault.rate});
    events_.push(ticks(fault.at), EventKind::kFault, 2 * index);
    if (fault.lasts) events_.push(ticks(fault.at + *fault.lasts), EventKind::kFault, 2 * index + 1);
  }
}

void Faults::on_event(uint32_t index) {
  Active& fault = faults_[index / 2];
  fault.now = index % 2 == 0;
  double share = 1;
  for (const Active& other : faults_) {
    if (other.now && other.link == fault.link) share = std::min(share, other.rate);
  }
  const bool was_usable = fabric_.link_usable(fault.link);
  fabric_.set_link(fault.link, share);
  if (was_usable == fabric_.link_usable(fault.link)) return;
  events_.push(events_.now() + reroute_, EventKind::kReroute, fault.link);
  const End low = topology_.links[fault.link].low;
  if (!was_usable && low.kind == End::Kind::kNic) endpoints_.link_returned(low.index);
}

}  // namespace megascale::sim
