#include "fabric_tools/sim/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace megascale::sim {
namespace {

constexpr Bytes kGrantPackets = 16;
// Two ticks of rounding: a rate that equals the port's must not look slower.
constexpr Tick kRounding = 2;

Recipe recipe_for(const Setup& setup) {
  if (setup.controllers) return setup.controllers;
  std::vector<std::string> complaints;
  Recipe recipe = prepare_controller(setup.algorithm, setup.parameters, &complaints);
  if (!complaints.empty()) throw std::invalid_argument(complaints[0]);
  return recipe;
}

}  // namespace

Endpoints::Endpoints(const Setup& setup, EventQueue& events, Packets& packets, Fabric& fabric,
                     Traffic& traffic, Deliveries& deliveries)
    : setup_(setup),
      hosts_(setup.model.hosts),
      topology_(*setup.topology),
      events_(events),
      packets_(packets),
      fabric_(fabric),
      traffic_(traffic),
      deliveries_(deliveries),
      recipe_(recipe_for(setup)),
      selective_(hosts_.recovery == Recovery::kSelective),
      jitter_(ticks(hosts_.jitter)),
      reply_delay_(ticks(hosts_.delay)),
      random_(mix(setup.seed) ^ 0xe4d),
      nics_(topology_.nics.size()) {
  for (uint32_t nic = 0; nic < nics_.size(); ++nic) nics_[nic].port = fabric_.nic_port(nic);
  if (hosts_.admission > 0) {
    admission_.emplace(nics_.size(), hosts_.admission, kGrantPackets * hosts_.payload);
  }
}

ConnectionId Endpoints::connect(uint32_t source, uint32_t destination) {
  const uint32_t path = paths_.intern(
      path_between(topology_, setup_.model.switches, fabric_.healthy_routes(), source, destination));
  uint32_t id;
  if (free_connections_.empty()) {
    id = new_index(connections_.size());
    connections_.emplace_back();
  } else {
    id = free_connections_.back();
    free_connections_.pop_back();
  }
  Connection& c = connections_[id];
  c.source = source;
  c.destination = destination;
  c.path = path;
  c.state = Connection::State::kIdle;
  // As the hash of a 5-tuple: addresses, and a source port for each queue pair.
  const uint64_t addresses = uint64_t{source} << 32 | destination;
  c.entropy = static_cast<uint32_t>(mix(mix(addresses) + mix(setup_.seed) + opened_++));
  c.base_rtt = round_trip(paths_[path], hosts_) + hosts_.rtt_bias.count() * 1000;
  if (admission_) admission_->open(id);
  return id;
}

void Endpoints::close(ConnectionId id) {
  Connection& c = connections_.at(id);
  if (c.state == Connection::State::kFree || c.delivering != kNone) {
    throw std::logic_error(fmt::format("connection {} is closed {}", id,
                                       c.delivering != kNone ? "before its last delivery" : "twice"));
  }
  count_connection(c);
  if (c.state == Connection::State::kReady) unlink(nics_[c.source], id);
  while (c.oldest != kNone) {
    const uint32_t message = c.oldest;
    c.oldest = messages_[message].next;
    messages_.give_back(message);
  }
  let_go(c);
  while (!c.replies.empty()) packets_.give_back(c.replies.pop(packets_));
  if (c.scoreboard != kNone) {
    boards_[c.scoreboard] = {};
    free_boards_.push_back(c.scoreboard);
  }
  // What is scheduled for this place will still come, and is counted on not to be scheduled twice.
  Connection fresh;
  fresh.generation = static_cast<uint16_t>(c.generation + 1);
  fresh.timeout_at = c.timeout_at;
  fresh.tick_at = c.tick_at;
  fresh.replying = c.replying;
  fresh.flushing = c.flushing;
  c = std::move(fresh);
  free_connections_.push_back(id);
}

void Endpoints::count_connection(Connection& c) {
  if (c.delivering != kNone) {
    c.active += events_.now() - c.active_since;
    c.active_since = events_.now();
  }
  deliveries_.add_connection(c.active, c.delivered);
}

void Endpoints::settle() {
  for (Connection& c : connections_) {
    if (c.state != Connection::State::kFree) count_connection(c);
  }
}

void Endpoints::post(ConnectionId id, Bytes bytes, uint64_t tag, Time at) {
  if (connections_.at(id).state == Connection::State::kFree) {
    throw std::logic_error(fmt::format("a message is posted to connection {}, which is closed", id));
  }
  const uint32_t message = messages_.take();
  messages_[message] = {.tag = tag,
                        .bytes = bytes,
                        .first_byte = 0,
                        .posted = std::max(ticks(at), events_.now()),
                        .connection = id,
                        .first_psn = 0,
                        .end_psn = 0,
                        .next = kNone};
  if (messages_[message].posted > events_.now()) {
    events_.push(messages_[message].posted, EventKind::kPost, message);
  } else {
    append(message);
  }
}

void Endpoints::wake(Time at, uint64_t tag) {
  const uint32_t id = alarms_.take();
  alarms_[id].tag = tag;
  events_.push(ticks(at), EventKind::kTraffic, id);
}

void Endpoints::on_traffic(uint32_t id) {
  const uint64_t tag = alarms_[id].tag;
  alarms_.give_back(id);
  traffic_.woken(*this, tag, time(events_.now()));
}

void Endpoints::on_post(uint32_t message) { append(message); }

void Endpoints::append(uint32_t message) {
  Message& m = messages_[message];
  Connection& c = connections_[m.connection];
  const uint64_t packets = packets_of(hosts_, m.bytes);
  if (packets > UINT32_MAX - uint64_t{c.end_psn} - 1) {
    throw std::invalid_argument(fmt::format("connection {} sends more than 2^32 packets", m.connection));
  }
  m.first_psn = c.end_psn;
  m.end_psn = c.end_psn += static_cast<uint32_t>(packets);
  m.first_byte = c.posted_bytes;
  c.posted_bytes += m.bytes;
  if (c.oldest == kNone) c.oldest = message, c.oldest_end = m.end_psn;
  else messages_[c.newest].next = message;
  c.newest = message;
  if (c.sending == kNone) c.sending = message;
  if (c.delivering == kNone) {
    c.delivering = message;
    c.deliver_end = m.end_psn;
    c.active_since = events_.now();
  }
  if (!c.controller) build(c);
  if (!c.outstanding() && c.congested_rounds >= hosts_.plb_idle_rounds) balance(c);
  if (admission_) announce(c, m.connection);
  refresh(m.connection);
}

bool Endpoints::may_send(const Connection& c) const {
  if (c.lost == 0) {
    if (c.next_psn == c.end_psn) return false;
    if (admission_ && c.sent_bytes >= c.granted && c.granted < c.posted_bytes) return false;
  }
  const Bytes inflight = c.inflight();
  return inflight == 0 || inflight + hosts_.payload <= c.window;
}

// When its pace lets the next packet go.
Tick Endpoints::due(const Connection& c) const {
  const double wait = c.pace * c.last_size;
  if (!(wait < 1e18)) return kNoTick / 2;
  return c.last_send + static_cast<Tick>(wait);
}

// Puts a connection where it belongs after anything about it has changed.
void Endpoints::refresh(uint32_t id) {
  using enum Connection::State;
  Connection& c = connections_[id];
  NicState& nic = nics_[c.source];
  if (!may_send(c)) {
    if (c.state == kReady) unlink(nic, id);
    c.state = kIdle;
    return;
  }
  if (c.state == kReady) return;
  const Tick at = due(c);
  const Tick free = std::max(events_.now(), fabric_.port(nic.port).busy_until);
  if (at <= free + kRounding) {
    link(nic, id);
    kick(c.source, free);
  } else if (c.state != kWaiting ||
             at + (at - c.last_send) / 8 < c.due) {  // a later time is seen when c.due comes
    c.state = kWaiting;
    c.due = at;
    nic.due.push_back({at, id});
    std::push_heap(nic.due.begin(), nic.due.end());
    kick(c.source, at);
  }
}

void Endpoints::link(NicState& nic, uint32_t id) {
  Connection& c = connections_[id];
  c.state = Connection::State::kReady;
  c.before = nic.last;
  c.after = kNone;
  if (nic.last == kNone) nic.first = id;
  else connections_[nic.last].after = id;
  nic.last = id;
}

void Endpoints::unlink(NicState& nic, uint32_t id) {
  Connection& c = connections_[id];
  if (c.before == kNone) nic.first = c.after;
  else connections_[c.before].after = c.after;
  if (c.after == kNone) nic.last = c.before;
  else connections_[c.after].before = c.before;
  c.state = Connection::State::kIdle;
}

void Endpoints::collect_due(NicState& nic) {
  while (!nic.due.empty() && nic.due.front().at <= events_.now() + kRounding) {
    const Due top = nic.due.front();
    std::pop_heap(nic.due.begin(), nic.due.end());
    nic.due.pop_back();
    Connection& c = connections_[top.connection];
    if (c.state != Connection::State::kWaiting || c.due != top.at) continue;  // it went elsewhere meanwhile
    c.state = Connection::State::kIdle;
    refresh(top.connection);
  }
}

void Endpoints::kick(uint32_t nic, Tick at) {
  const FabricPort& port = fabric_.port(nics_[nic].port);
  if (port.paused || port.down) return;
  fabric_.wake(nics_[nic].port, at);
}

void Endpoints::serve(uint32_t id) {
  NicState& nic = nics_[id];
  const Tick busy = fabric_.port(nic.port).busy_until;
  if (events_.now() < busy) return fabric_.wake(nic.port, busy);
  if (!fabric_.send_next_control(nic.port)) {
    const FabricPort& port = fabric_.port(nic.port);
    if (port.paused || port.down) return;
    collect_due(nic);
    if (nic.first != kNone) {
      const uint32_t connection = nic.first;
      unlink(nic, connection);
      send(connection);
    }
  }
  const FabricPort& port = fabric_.port(nic.port);
  if (!port.control.empty()) return fabric_.wake(nic.port, port.busy_until);
  if (port.paused || port.down) return;
  if (nic.first != kNone) fabric_.wake(nic.port, port.busy_until);
  else if (!nic.due.empty()) fabric_.wake(nic.port, std::max(nic.due.front().at, port.busy_until));
}

void Endpoints::link_returned(uint32_t nic) {
  for (uint32_t id = 0; id < connections_.size(); ++id) {
    Connection& c = connections_[id];
    if (c.state == Connection::State::kFree || c.source != nic || !c.outstanding()) continue;
    c.deadline = events_.now();  // a NIC knows its own link: no need to wait
    arm_timeout(c, id);
  }
  kick(nic, events_.now());
}

uint32_t Endpoints::control_packet(PacketKind kind, uint32_t connection, bool to_source) {
  const Connection& c = connections_[connection];
  const uint32_t id = packets_.take();
  Packet& p = packets_[id];
  p = {};
  p.connection = connection;
  p.generation = c.generation;
  p.destination = to_source ? c.source : c.destination;
  p.entropy = c.entropy;
  p.telemetry = kNone;
  p.size = static_cast<uint16_t>(hosts_.ack);
  p.kind = kind;
  return id;
}

}  // namespace megascale::sim
