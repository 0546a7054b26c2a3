#include "fabric_tools/sim/check.h"

#include <fmt/format.h>

#include <stdexcept>

#include "fabric_tools/sim/faults.h"
#include "fabric_tools/sim/headroom.h"
#include "fabric_tools/sim/model_fields.h"
#include "fabric_tools/topology/bounds.h"

namespace megascale::sim {
namespace {

void in_range(const std::string& what, double value, double least, double most, const char* unit) {
  if (value >= least && value <= most) return;
  throw std::invalid_argument(
      fmt::format("{} = {} {} cannot be simulated; accepted: {} to {}", what, value, unit, least, most));
}

void in_range(const std::string& what, Duration value, Duration least, Duration most) {
  in_range(what, seconds(value), seconds(least), seconds(most), "s");
}

void check_end(const Topology& t, End end, size_t link) {
  const size_t count = end.kind == End::Kind::kNic ? t.nics.size() : t.switches.size();
  if (end.index < count) return;
  throw std::invalid_argument(fmt::format("link {} of topology '{}' ends at {} {}, and there are {}", link,
                                          t.name, end.kind == End::Kind::kNic ? "NIC" : "switch", end.index,
                                          count));
}

void check_topology(const Topology& t) {
  for (const Switch& s : t.switches) {
    if (s.tier < t.tiers) continue;
    throw std::invalid_argument(fmt::format("switch {} of topology '{}' is of tier {}, and there are {}",
                                            s.name, t.name, s.tier, t.tiers));
  }
  for (size_t n = 0; n < t.nics.size(); ++n) {
    if (t.nics[n].host < t.hosts.size()) continue;
    throw std::invalid_argument(fmt::format("NIC {} of topology '{}' is in no host", n, t.name));
  }
  for (size_t l = 0; l < t.links.size(); ++l) {
    const Link& link = t.links[l];
    check_end(t, link.low, l);
    check_end(t, link.high, l);
    const std::string which = fmt::format("link {} - {}", name_of(t, link.low), name_of(t, link.high));
    if (link.high.kind != End::Kind::kSwitch) {
      throw std::invalid_argument(which + ": its higher end must be a switch");
    }
    if (!is_allowed(link.rate) || !is_allowed(link.delay))
      throw std::invalid_argument(
          fmt::format("{}: {} Gbit/s and {} ns are not allowed; 0.001 to 100000 Gbit/s and 0 to 1e9 ns are",
                      which, link.rate.bits_per_second / 1e9, link.delay.count()));
  }
  for (uint32_t n = 0; n < t.nics.size(); ++n) {
    if (t.nics[n].link < t.links.size() && t.links[t.nics[n].link].low == End{End::Kind::kNic, n}) continue;
    throw std::invalid_argument(fmt::format("NIC {} of topology '{}' has no link", nic_name(t, n), t.name));
  }
}

void check_marking(const Ecn& ecn) {
  if (ecn.kmin <= ecn.kmax) return;
  throw std::invalid_argument(
      fmt::format("switches.ecn.kmin = {} bytes is above switches.ecn.kmax = {} bytes", ecn.kmin, ecn.kmax));
}

void check_headroom(const Topology& t, const Model& model) {
  const Pfc& pfc = model.switches.pfc;
  if (!pfc.on || pfc.headroom == 0 || pfc.unsafe_headroom) return;
  for (const Link& link : t.links) {
    const Bytes needed = headroom_needed(
        {link.rate, link.delay, model.switches.latency, model.hosts.payload + model.hosts.header});
    if (pfc.headroom >= needed) continue;
    throw std::invalid_argument(fmt::format(
        "a PFC headroom of {} bytes is not safe: the link between {} and {} ({} Gbit/s, {} ns) needs {} "
        "bytes, or packets are dropped. Give at least that, 0 to have it calculated, or set "
        "unsafe_headroom to see what goes wrong",
        pfc.headroom, name_of(t, link.low), name_of(t, link.high), link.rate.bits_per_second / 1e9,
        link.delay.count(), needed));
  }
}

}  // namespace

void check(const Setup& setup) {
  if (!setup.topology) throw std::invalid_argument("a simulation needs a topology");
  in_range("limit", setup.limit, 1ns, 24h);
  in_range("sample", setup.sample, 0s, 24h);
  check_fields(setup.model);
  check_topology(*setup.topology);
  check_marking(setup.model.switches.ecn);
  check_headroom(*setup.topology, setup.model);
  links_of(*setup.topology, setup.model.faults);
}

}  // namespace megascale::sim
