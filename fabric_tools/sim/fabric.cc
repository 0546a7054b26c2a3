#include "fabric_tools/sim/fabric.h"

#include <algorithm>

#include "fabric_tools/sim/headroom.h"

namespace megascale::sim {
namespace {

// Queues that have stood still for so long may be in a deadlock; a cycle is looked for this often.
constexpr Tick kStandstill = ticks(200us);

}  // namespace

Fabric::Fabric(const Topology& topology, const Model& model, uint64_t seed, EventQueue& events,
               Packets& packets)
    : topology_(topology),
      model_(model.switches),
      hosts_(model.hosts),
      events_(events),
      packets_(packets),
      random_(mix(seed) ^ 0xfab),
      routes_(topology),
      routed_(topology.links.size(), true),
      ports_(2 * topology.links.size()),
      switches_(topology.switches.size()) {
  for (size_t s = 0; s < switches_.size(); ++s) switches_[s].seed = mix(mix(seed) + 0x51 + s);
  build_ports();
  if (model_.pfc.on) build_headroom();
}

void Fabric::build_ports() {
  queues_.resize(topology_.tiers);
  pauses_.resize(topology_.tiers);
  for (uint32_t l = 0; l < topology_.links.size(); ++l) {
    const Link& link = topology_.links[l];
    for (const bool up : {true, false}) {
      FabricPort& port = ports_[up ? up_port(l) : down_port(l)];
      const End from = up ? link.low : link.high, to = up ? link.high : link.low;
      port.owner = from.index;
      port.peer = to.index;
      port.from_nic = from.kind == End::Kind::kNic;
      port.to_nic = to.kind == End::Kind::kNic;
      port.delay = ticks(link.delay) + (port.to_nic ? 0 : ticks(model_.latency));
      port.tier = static_cast<uint8_t>(topology_.switches[link.high.index].tier);
      const double scale = link.rate.bits_per_second / model_.ecn.at.bits_per_second;
      port.kmin = static_cast<float>(static_cast<double>(model_.ecn.kmin) * scale);
      port.kmax = static_cast<float>(static_cast<double>(model_.ecn.kmax) * scale);
    }
    set_rate(up_port(l), 1);
    set_rate(down_port(l), 1);
  }
}

void Fabric::set_rate(uint32_t port, double share) {
  ports_[port].per_byte = ticks_per_byte({topology_.links[port / 2].rate.bits_per_second * share});
}

void Fabric::build_headroom() {
  for (uint32_t p = 0; p < ports_.size(); ++p) {
    if (ports_[p].from_nic) continue;
    const Link& link = topology_.links[p / 2];
    const Bytes needed =
        headroom_needed({link.rate, link.delay, model_.latency, hosts_.payload + hosts_.header});
    ports_[p].headroom = model_.pfc.headroom > 0 ? model_.pfc.headroom : needed;
  }
}

bool Fabric::arrive(uint32_t packet) {
  const Packet& p = packets_[packet];
  const FabricPort& port = ports_[p.port];
  if (port.failed && lost_on_the_wire(port, p)) {
    drop(packet);
    return false;
  }
  if (port.to_nic) return true;
  forward(p.port ^ 1, packet);
  return false;
}

// The link went down since the packet's first bit left.
bool Fabric::lost_on_the_wire(const FabricPort& port, const Packet& p) const {
  return port.down || port.down_at >= events_.now() - port.delay - ticks_for(p.size, port.per_byte);
}

void Fabric::transmit(uint32_t id, uint32_t packet) {
  FabricPort& port = ports_[id];
  Packet& p = packets_[packet];
  const Tick time = ticks_for(p.size, port.per_byte);
  port.busy_until = events_.now() + time;
  port.busy += time;
  port.sent_bytes += p.size;
  p.port = id;
  events_.push(port.busy_until + port.delay, EventKind::kArrive, packet);
}

// Sprayed packets of a connection take the ports in turn, and on the switches that they get to the ports
// there in turn: all paths carry the same, and no queue grows but by those that happen to come at once.
uint32_t Fabric::choose(uint32_t at_switch, Packet& packet) const {
  const auto ports = routes_.ports(at_switch, packet.destination);
  const auto count = static_cast<uint32_t>(ports.size());
  if (count <= 1) return count == 0 ? kNone : ports[0];
  const auto hash = static_cast<uint32_t>(mix(packet.entropy ^ switches_[at_switch].seed));
  const auto chosen = static_cast<uint32_t>((uint64_t{hash} * count) >> 32);
  if (model_.balance != Balance::kSpray || packet.kind != PacketKind::kData) return ports[chosen];
  const uint32_t turn = packet.turn % count;
  packet.turn /= count;
  return ports[(chosen + turn) % count];
}

void Fabric::forward(uint32_t in, uint32_t packet) {
  Packet& p = packets_[packet];
  const uint32_t out = choose(ports_[in ^ 1].peer, p);
  if (out == kNone || ports_[out].down) return drop(packet);
  if (p.kind == PacketKind::kData) forward_data(in, out, packet);
  else send_control(out, packet);
}

// Acknowledgements and CNPs have a class of their own, above the data's, which is never paused.
void Fabric::send_control(uint32_t id, uint32_t packet) {
  FabricPort& port = ports_[id];
  if (port.down) return drop(packet);
  if (port.control.empty() && events_.now() >= port.busy_until) return transmit(id, packet);
  port.control.push(packets_, packet);
  wake(id, port.busy_until);
}

bool Fabric::send_next_control(uint32_t id) {
  if (ports_[id].control.empty()) return false;
  transmit(id, ports_[id].control.pop(packets_));
  return true;
}

void Fabric::forward_data(uint32_t in, uint32_t out, uint32_t packet) {
  FabricPort& port = ports_[out];
  Packet& p = packets_[packet];
  ++p.hops;
  if (port.draining) return drop(packet);
  queues_[port.tier].add(port.queued);
  if (model_.ecn.on && !model_.ecn.on_dequeue && !p.marked && mark(port, port.queued)) {
    p.marked = true;
    ++totals_.marked;
  }
  if (port.data.empty() && port.control.empty() && !port.paused && events_.now() >= port.busy_until) {
    leave(port, p);
    return transmit(out, packet);
  }
  if (!admit(in, out, p.size)) return drop(packet);
  p.ingress = in;
  port.data.push(packets_, packet);
  change_queue(port, port.queued + p.size);
  if (!port.paused) wake(out, port.busy_until);
}

// A place in the buffer for a packet that has come in by `in` and waits for `out`.
bool Fabric::admit(uint32_t in, uint32_t out, uint32_t size) {
  SwitchState& s = switches_[ports_[in ^ 1].peer];
  const auto share = [&](double alpha) {
    return alpha * static_cast<double>(model_.buffer - std::min(model_.buffer, s.used));
  };
  if (!model_.pfc.on) {
    if (static_cast<double>(ports_[out].queued + size) > share(model_.alpha_lossy)) return false;
    s.used += size;
    return true;
  }
  FabricPort& from = ports_[in];
  // What comes before the pause was asked for is not the headroom's to take, even where the threshold has
  // sunk below what lies here because others filled the buffer: all of the headroom is for what comes after.
  const bool room = !from.pausing && s.used + size <= model_.buffer;
  if (room || static_cast<double>(from.shared) < share(model_.pfc.alpha)) {
    from.shared += size;
    s.used += size;
  } else if (from.over + size <= from.headroom) {
    from.over += size;
  } else {
    return false;
  }
  if (!from.pausing && static_cast<double>(from.shared + from.over) > share(model_.pfc.alpha)) {
    ask(in, EventKind::kPause);
  }
  return true;
}

void Fabric::release(uint32_t at_switch, uint32_t in, uint32_t size) {
  SwitchState& s = switches_[at_switch];
  if (!model_.pfc.on) {
    s.used -= size;
    return;
  }
  FabricPort& from = ports_[in];
  const uint64_t of_headroom = std::min<uint64_t>(size, from.over);
  from.over -= of_headroom;
  from.shared -= size - of_headroom;
  s.used -= size - of_headroom;
  if (!from.pausing || from.over > 0) return;
  const double threshold =
      model_.pfc.alpha * static_cast<double>(model_.buffer - std::min(model_.buffer, s.used));
  if (from.shared == 0 || static_cast<double>(from.shared + model_.pfc.hysteresis) <= threshold) {
    ask(in, EventKind::kResume);
  }
}

// Sends a pause frame, or one that takes it back, to the neighbour: before all else, but not into the middle
// of a packet.
void Fabric::ask(uint32_t in, EventKind what) {
  FabricPort& port = ports_[in];
  port.pausing = what == EventKind::kPause;
  if (port.down) return;
  port.busy_until = std::max(events_.now(), port.busy_until) + ticks_for(kPauseFrame, port.per_byte);
  if (port.wake_at != kNoTick && port.wake_at < port.busy_until) {
    port.wake_at = kNoTick;
    wake(in, port.busy_until);
  }
  const Tick response = ticks_for(kPauseResponseQuanta * 512 / 8, port.per_byte);
  events_.push(port.busy_until + ticks(topology_.links[in / 2].delay) + response, what, in ^ 1);
  if (what != EventKind::kPause) return;
  port.asked_at = events_.now();
  ++totals_.pauses;
  ++pauses_[topology_.switches[port.owner].tier];
  totals_.last_pause = events_.now();
}

void Fabric::pause(uint32_t id) {
  FabricPort& port = ports_[id];
  const bool lost =
      port.failed && port.down_at >= ports_[id ^ 1].asked_at;  // on a link that went down under it
  if (port.paused || port.down || lost) return;
  port.paused = true;
  port.paused_since = events_.now();
  ++paused_ports_;
  if (port.from_nic) return;
  if (model_.pfc.watchdog.count() > 0) {
    events_.push(events_.now() + ticks(model_.pfc.watchdog), EventKind::kWatchdog, id);
  }
  if (!looking_for_deadlock_) {
    looking_for_deadlock_ = true;
    events_.push(events_.now() + kStandstill, EventKind::kDeadlock, 0);
  }
}

void Fabric::end_pause(FabricPort& port) {
  if (!port.paused) return;
  port.paused = port.draining = false;
  port.paused_for += events_.now() - port.paused_since;
  --paused_ports_;
}

bool Fabric::resume(uint32_t id) {
  FabricPort& port = ports_[id];
  if (!port.paused) return false;
  end_pause(port);
  if (port.from_nic) return true;
  if (!port.data.empty()) serve(id);
  return false;
}

// SONiC's PFC watchdog: a queue that stays paused is drained by dropping, and what comes for it is dropped,
// until its neighbour lets it go.
void Fabric::watch(uint32_t id) {
  FabricPort& port = ports_[id];
  if (!port.paused || port.draining || port.paused_since + ticks(model_.pfc.watchdog) != events_.now())
    return;
  port.draining = true;
  ++totals_.watchdogs;
  flush_data(id);
}

void Fabric::serve(uint32_t id) {
  FabricPort& port = ports_[id];
  if (events_.now() < port.busy_until) return wake(id, port.busy_until);
  if (!send_next_control(id)) {
    if (port.data.empty() || port.paused || port.down) return;
    transmit(id, dequeue(id));
  }
  if (!port.control.empty() || (!port.data.empty() && !port.paused)) wake(id, port.busy_until);
}

uint32_t Fabric::dequeue(uint32_t id) {
  FabricPort& port = ports_[id];
  const uint32_t packet = port.data.pop(packets_);
  Packet& p = packets_[packet];
  change_queue(port, port.queued - p.size);
  release(port.owner, p.ingress, p.size);
  leave(port, p);
  return packet;
}

// What a switch does to a packet as it begins to send it.
void Fabric::leave(FabricPort& port, Packet& p) {
  ++port.packets;
  if (model_.ecn.on && model_.ecn.on_dequeue && !p.marked && mark(port, port.queued)) {
    p.marked = true;
    ++totals_.marked;
  }
  if (p.telemetry == kNone) return;
  TelemetryRecord& record = packets_.telemetry(p.telemetry);
  if (record.count == kMostHops) return;
  record.hops[record.count++] = {time(events_.now()), port.queued, port.sent_bytes + p.size,
                                 Rate{8e12 / port.per_byte}};
}

bool Fabric::mark(const FabricPort& port, uint64_t queue) {
  const auto q = static_cast<float>(queue);
  if (q <= port.kmin) return false;
  if (q > port.kmax) return true;
  return random_.uniform() < model_.ecn.pmax * static_cast<double>((q - port.kmin) / (port.kmax - port.kmin));
}

void Fabric::change_queue(FabricPort& port, uint64_t bytes) {
  port.queue_area +=
      static_cast<double>(port.queued) * static_cast<double>(events_.now() - port.queue_changed);
  port.queue_changed = events_.now();
  port.queued = bytes;
}

void Fabric::drop(uint32_t packet) {
  ++totals_.dropped;
  packets_.give_back(packet);
}

void Fabric::flush_data(uint32_t id) {
  while (!ports_[id].data.empty()) {
    FabricPort& port = ports_[id];
    const uint32_t packet = port.data.pop(packets_);
    change_queue(port, port.queued - packets_[packet].size);
    release(port.owner, packets_[packet].ingress, packets_[packet].size);
    drop(packet);
  }
}

void Fabric::set_link(uint32_t link, double share) {
  for (const uint32_t id : {up_port(link), down_port(link)}) {
    FabricPort& port = ports_[id];
    port.down = share <= 0;
    if (!port.down) {
      set_rate(id, share);
      continue;
    }
    port.failed = true;
    port.down_at = events_.now();
    end_pause(port);
    port.pausing = false;
    flush_data(id);
    while (!port.control.empty()) drop(port.control.pop(packets_));
  }
}

void Fabric::reroute(uint32_t link) {
  if (routed_[link] == link_usable(link)) return;
  if (!healthy_) healthy_.emplace(routes_);
  routed_[link] = link_usable(link);
  routes_.compute(routed_);
}

void Fabric::settle() {
  for (FabricPort& port : ports_) {
    change_queue(port, port.queued);
    if (port.paused) {
      port.paused_for += events_.now() - port.paused_since;
      port.paused_since = events_.now();
    }
  }
}

// For each paused port of a switch that has stood still: the paused ports, at the switch that it leads to,
// where packets that came from it wait. When such a switch also sends some of them on, it is no deadlock yet;
// but then the queue does not stand still for long.
std::vector<std::vector<uint32_t>> Fabric::waits_for() const {
  std::vector<std::vector<uint32_t>> edges(ports_.size());
  const auto stands_still = [&](const FabricPort& port) {
    return port.paused && !port.from_nic && !port.data.empty() &&
           events_.now() - port.paused_since >= kStandstill;
  };
  for (uint32_t out = 0; out < ports_.size(); ++out) {
    if (!stands_still(ports_[out])) continue;
    for (uint32_t packet = ports_[out].data.head; packet != kNone; packet = packets_[packet].next) {
      const uint32_t waiting = packets_[packet].ingress ^ 1;
      if (!stands_still(ports_[waiting])) continue;
      if (std::find(edges[waiting].begin(), edges[waiting].end(), out) == edges[waiting].end()) {
        edges[waiting].push_back(out);
      }
    }
  }
  return edges;
}

bool Fabric::look_for_deadlock() {
  looking_for_deadlock_ = paused_ports_ > 0;
  if (!looking_for_deadlock_) return false;
  events_.push(events_.now() + kStandstill, EventKind::kDeadlock, 0);
  // What is left when ports that wait for nobody are taken away again and again is a cycle, or leads to one.
  auto edges = waits_for();
  bool any = true;
  while (any) {
    any = false;
    for (auto& out : edges) {
      const size_t before = out.size();
      std::erase_if(out, [&](uint32_t to) { return edges[to].empty(); });
      any |= out.size() != before;
    }
  }
  return std::any_of(edges.begin(), edges.end(), [](const auto& out) { return !out.empty(); });
}

}  // namespace megascale::sim
