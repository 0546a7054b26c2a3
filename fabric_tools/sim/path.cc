#include "fabric_tools/sim/path.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "fabric_tools/random.h"

namespace megascale::sim {
namespace {

Hop hop_over(const Topology& topology, const Switches& switches, uint32_t link, bool ends_at_switch) {
  const Link& l = topology.links[link];
  return {ticks_per_byte(l.rate), ticks(l.delay) + (ends_at_switch ? ticks(switches.latency) : 0)};
}

[[noreturn]] void no_route(const Topology& topology, uint32_t source, uint32_t destination) {
  throw std::invalid_argument(
      fmt::format("no route from NIC {} to NIC {} in topology '{}': no chain of links joins them. Check the "
                  "topology's links, or send between NICs of one rail only",
                  nic_name(topology, source), nic_name(topology, destination), topology.name));
}

}  // namespace

Tick crossing(const Path& path, Bytes wire) {
  Tick sum = 0;
  for (const Hop& hop : path) sum += ticks_for(wire, hop.per_byte) + hop.delay;
  return sum;
}

Tick message_alone(const Path& path, const Hosts& hosts, Bytes payload) {
  const uint64_t packets = packets_of(hosts, payload);
  const Bytes full = hosts.payload + hosts.header;
  const Bytes rest = payload - (packets - 1) * hosts.payload + hosts.header;
  if (packets == 1) return crossing(path, rest);
  // The packet before the last leaves a hop when all full ones before it have passed the slowest hop so far;
  // the last one follows it or its own arrival.
  Tick arrival_of_last = 0, sum = 0, slowest = 0;
  for (const Hop& hop : path) {
    const Tick full_time = ticks_for(full, hop.per_byte);
    sum += full_time;
    slowest = std::max(slowest, full_time);
    const Tick before_left = sum + static_cast<Tick>(packets - 2) * slowest;
    arrival_of_last = std::max(before_left, arrival_of_last) + ticks_for(rest, hop.per_byte) + hop.delay;
    sum += hop.delay;
  }
  return arrival_of_last;
}

Tick round_trip(const Path& path, const Hosts& hosts) {
  return crossing(path, hosts.payload + hosts.header) + ticks(hosts.delay) + crossing(path, hosts.ack);
}

Path path_between(const Topology& topology, const Switches& switches, const Routes& routes, uint32_t source,
                  uint32_t destination) {
  if (source >= topology.nics.size() || destination >= topology.nics.size()) {
    throw std::invalid_argument(fmt::format("there is no NIC {}: topology '{}' has {}",
                                            std::max(source, destination), topology.name,
                                            topology.nics.size()));
  }
  if (source == destination) {
    throw std::invalid_argument("NIC " + nic_name(topology, source) +
                                " cannot send to itself: what stays inside a host is not simulated");
  }
  Path path{hop_over(topology, switches, topology.nics[source].link, true)};
  uint32_t at = topology.links[topology.nics[source].link].high.index;
  const uint32_t last = topology.links[topology.nics[destination].link].high.index;
  while (at != last) {
    const auto ports = routes.ports(at, destination);
    if (ports.empty()) no_route(topology, source, destination);
    const Link& link = topology.links[ports[0] / 2];
    path.push_back(hop_over(topology, switches, ports[0] / 2, true));
    at = ports[0] % 2 == 0 ? link.high.index : link.low.index;
  }
  path.push_back(hop_over(topology, switches, topology.nics[destination].link, false));
  return path;
}

uint32_t Paths::intern(Path path) {
  uint64_t hash = path.size();
  for (const Hop& s : path) {
    hash = mix(hash ^ std::bit_cast<uint64_t>(s.per_byte)) + mix(static_cast<uint64_t>(s.delay));
  }
  const auto [begin, end] = known_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (paths_[it->second] == path) return it->second;
  }
  const auto id = static_cast<uint32_t>(paths_.size());
  paths_.push_back(std::move(path));
  known_.emplace(hash, id);
  return id;
}

Duration PathTimes::base_rtt(uint32_t source, uint32_t destination) const {
  const Path path = path_between(*setup_.topology, setup_.model.switches, routes_, source, destination);
  return duration(round_trip(path, setup_.model.hosts));
}

Duration PathTimes::alone(uint32_t source, uint32_t destination, Bytes bytes) const {
  const Path path = path_between(*setup_.topology, setup_.model.switches, routes_, source, destination);
  return duration(message_alone(path, setup_.model.hosts, bytes));
}

}  // namespace megascale::sim
