#include "fabric_tools/sim/check.h"

#include <fmt/format.h>

#include <stdexcept>

#include "fabric_tools/sim/routes.h"

namespace megascale::sim {
namespace {

void in_range(const char* field, double value, double least, double most, const char* unit) {
  if (value >= least && value <= most) return;
  throw std::runtime_error(fmt::format("{} = {}{}{} cannot be simulated; accepted: {} to {}", field, value,
                                       *unit ? " " : "", unit, least, most));
}

void in_range(const char* field, Duration value, Duration least, Duration most) {
  in_range(field, seconds(value), seconds(least), seconds(most), "s");
}

constexpr Duration kLongest = 1000s;
constexpr double kMostBytes = 1e15;

void check_switches(const Switches& s) {
  in_range("switches.buffer", static_cast<double>(s.buffer), 1, kMostBytes, "bytes");
  in_range("switches.alpha_lossy", s.alpha_lossy, 1e-6, 1e6, "");
  in_range("switches.latency", s.latency, 0s, 1s);
  in_range("switches.flowlet_gap", s.flowlet_gap, 0s, kLongest);
  in_range("switches.reroute", s.reroute, 0s, kLongest);
  in_range("switches.ecn.kmin", static_cast<double>(s.ecn.kmin), 0, static_cast<double>(s.ecn.kmax), "bytes");
  in_range("switches.ecn.kmax", static_cast<double>(s.ecn.kmax), 0, kMostBytes, "bytes");
  in_range("switches.ecn.pmax", s.ecn.pmax, 0, 1, "");
  in_range("switches.ecn.at", s.ecn.at.bits_per_second, 1e6, 1e14, "bit/s");
  in_range("switches.pfc.alpha", s.pfc.alpha, 1e-6, 1e6, "");
  in_range("switches.pfc.headroom", static_cast<double>(s.pfc.headroom), 0, kMostBytes, "bytes");
  in_range("switches.pfc.hysteresis", static_cast<double>(s.pfc.hysteresis), 0, kMostBytes, "bytes");
  in_range("switches.pfc.watchdog", s.pfc.watchdog, 0s, kLongest);
}

void check_hosts(const Hosts& h) {
  in_range("hosts.payload", static_cast<double>(h.payload), 1, 65'000, "bytes");
  in_range("hosts.header", static_cast<double>(h.header), 0, 500, "bytes");
  in_range("hosts.ack", static_cast<double>(h.ack), 1, 9'000, "bytes");
  in_range("hosts.ack_every", h.ack_every, 1, 1e6, "packets");
  in_range("hosts.delay", h.delay, 0s, 1s);
  in_range("hosts.jitter", h.jitter, 0s, 1s);
  in_range("hosts.cnp_interval", h.cnp_interval, 0s, kLongest);
  in_range("hosts.cnp_delay", h.cnp_delay, 0s, 1s);
  in_range("hosts.least_timeout", h.least_timeout, 1us, kLongest);
  if (h.fixed_timeout) in_range("hosts.fixed_timeout", *h.fixed_timeout, 1us, kLongest);
  in_range("hosts.rtt_bias", h.rtt_bias, -1s, 1s);
  in_range("hosts.admission", static_cast<double>(h.admission), 0, kMostBytes, "bytes");
}

void check_end(const Topology& t, End end, size_t link) {
  const size_t count = end.kind == End::Kind::kNic ? t.nics.size() : t.switches.size();
  if (end.index < count) return;
  throw std::runtime_error(fmt::format("link {} of topology '{}' ends at {} {}, and there are {}", link,
                                       t.name, end.kind == End::Kind::kNic ? "NIC" : "switch", end.index,
                                       count));
}

void check_topology(const Topology& t) {
  for (size_t n = 0; n < t.nics.size(); ++n) {
    if (t.nics[n].host < t.hosts.size()) continue;
    throw std::runtime_error(fmt::format("NIC {} of topology '{}' is in no host", n, t.name));
  }
  for (size_t l = 0; l < t.links.size(); ++l) {
    const Link& link = t.links[l];
    check_end(t, link.low, l);
    check_end(t, link.high, l);
    const std::string which = fmt::format("link {} - {}", name_of(t, link.low), name_of(t, link.high));
    if (link.high.kind != End::Kind::kSwitch) {
      throw std::runtime_error(which + ": its higher end must be a switch");
    }
    in_range((which + ": rate").c_str(), link.rate.bits_per_second, 1e6, 1e14, "bit/s");
    in_range((which + ": delay").c_str(), link.delay, 0s, 1s);
  }
  for (uint32_t n = 0; n < t.nics.size(); ++n) {
    if (t.nics[n].link < t.links.size() && t.links[t.nics[n].link].low == End{End::Kind::kNic, n}) continue;
    throw std::runtime_error(fmt::format("NIC {} of topology '{}' has no link", nic_name(t, n), t.name));
  }
}

}  // namespace

void check(const Setup& setup) {
  if (!setup.topology) throw std::runtime_error("a simulation needs a topology");
  in_range("limit", setup.limit, 1ns, kLongest);
  in_range("sample", setup.sample, 0s, kLongest);
  check_switches(setup.model.switches);
  check_hosts(setup.model.hosts);
  check_topology(*setup.topology);
}

}  // namespace megascale::sim
