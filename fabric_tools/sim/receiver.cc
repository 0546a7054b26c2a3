// The receiving side of a connection: what has arrived, and the answers to it.
#include <algorithm>

#include "fabric_tools/sim/endpoints.h"

namespace megascale::sim {
namespace {

// How long an acknowledgement waits for more packets (hosts.ack_every). A sender whose window has shrunk has
// no more to send, and would wait for it until its timeout.
constexpr Tick kHeldBack = ticks(10us);

}  // namespace

void Endpoints::receive(uint32_t id) {
  const Packet p = packets_[id];
  if (connections_[p.connection].generation != p.generation) return packets_.give_back(id);  // it was closed
  if (p.kind == PacketKind::kData) return on_data(id);
  Connection& c = connections_[p.connection];
  switch (p.kind) {
    case PacketKind::kAck:
    case PacketKind::kNack:
      on_answer(p);
      break;
    case PacketKind::kCnp:
      c.controller->cnp(time(events_.now()));
      listen(c, p.connection);
      refresh(p.connection);
      break;
    case PacketKind::kAnnounce:
      if (admission_->announce(c.destination, p.connection, p.total)) {
        const uint32_t again = control_packet(PacketKind::kGrant, p.connection, true);
        packets_[again].total = admission_->granted(p.connection);
        fabric_.send_control(nics_[c.destination].port, again);
      }
      grant(c.destination);
      break;
    case PacketKind::kGrant:
      c.granted = std::max(c.granted, p.total);
      refresh(p.connection);
      break;
    case PacketKind::kData:
      break;
  }
  packets_.give_back(id);
}

Scoreboard& Endpoints::board(Connection& c) {
  if (c.scoreboard == kNone) {
    if (free_boards_.empty()) {
      c.scoreboard = static_cast<uint32_t>(boards_.size());
      boards_.emplace_back();
    } else {
      c.scoreboard = free_boards_.back();
      free_boards_.pop_back();
    }
  }
  return boards_[c.scoreboard];
}

void Endpoints::on_data(uint32_t id) {
  const Packet p = packets_[id];
  Connection& c = connections_[p.connection];
  c.marked |= p.marked;
  if (p.marked && hosts_.cnp) notify(c, p.connection);
  const bool in_order = p.psn == c.expected;
  if (!take_in(c, p)) {
    if (!c.nacked) {
      c.nacked = true;
      answer(c, id, PacketKind::kNack);
    } else {
      packets_.give_back(id);
    }
    return;
  }
  let_go(c);
  if (++c.since_ack >= hosts_.ack_every || p.asks || !in_order) answer(c, id, PacketKind::kAck);
  else hold_back(c, id);
  if (admission_) grant(c.destination);
  deliver(p.connection, p.generation);
}

// False: go-back-N has no use for it.
bool Endpoints::take_in(Connection& c, const Packet& p) {
  const Bytes payload = p.size - hosts_.header;
  if (p.psn < c.expected) return true;  // had it
  if (p.psn > c.expected) {
    if (!selective_) return false;
    PacketSet& got = board(c).got;
    if (got.contains(p.psn, c.expected)) return true;
    got.insert(p.psn, c.expected);
  } else {
    ++c.expected;
    c.nacked = false;
    if (c.scoreboard != kNone) {
      PacketSet& got = boards_[c.scoreboard].got;
      for (; got.contains(c.expected, c.expected); ++c.expected) got.erase(c.expected);
    }
  }
  c.received += payload;
  if (admission_) admission_->arrived(c.destination, payload);
  return true;
}

void Endpoints::hold_back(Connection& c, uint32_t id) {
  Packet& p = packets_[id];
  p.at = events_.now();
  c.held = id;
  if (c.flushing) return;
  c.flushing = true;
  events_.push(p.at + kHeldBack, EventKind::kFlush, p.connection);
}

void Endpoints::let_go(Connection& c) {
  if (c.held != kNone) packets_.give_back(c.held);
  c.held = kNone;
}

void Endpoints::on_flush(uint32_t id) {
  Connection& c = connections_[id];
  c.flushing = false;
  if (c.held == kNone) return;
  const Tick came = packets_[c.held].at;
  if (events_.now() - came < kHeldBack) {  // another has come meanwhile
    c.flushing = true;
    events_.push(came + kHeldBack, EventKind::kFlush, id);
    return;
  }
  const uint32_t packet = c.held;
  c.held = kNone;
  answer(c, packet, PacketKind::kAck, events_.now() - came);
}

// The packet goes back as its own answer. `held`: so long it was held back.
void Endpoints::answer(Connection& c, uint32_t id, PacketKind kind, Tick held) {
  Packet& p = packets_[id];
  p.kind = kind;
  p.destination = c.source;
  p.entropy = c.entropy;
  p.size = static_cast<uint16_t>(hosts_.ack);
  p.total = c.received;
  p.cumulative = c.expected;
  p.marked = c.marked;
  c.marked = false;
  c.since_ack = 0;
  Tick wait = reply_delay_;
  if (jitter_ > 0) wait += static_cast<Tick>(random_.exponential(static_cast<double>(jitter_)));
  p.hold = static_cast<uint32_t>(held / 1000);
  const uint32_t port = nics_[c.destination].port;
  if (wait == 0 && c.replies.empty()) return fabric_.send_control(port, id);
  if (!hosts_.jitter_in_order) {
    p.hold = static_cast<uint32_t>((wait + held) / 1000);
    p.next = port;  // it is in no queue
    return events_.push(events_.now() + wait, EventKind::kLateReply, id);
  }
  c.last_reply = std::max(c.last_reply, events_.now() + wait);  // their order is kept
  p.at = c.last_reply;
  p.hold = static_cast<uint32_t>((p.at - events_.now() + held) / 1000);
  const uint32_t connection = p.connection;
  c.replies.push(packets_, id);
  if (c.replying) return;
  c.replying = true;
  events_.push(c.last_reply, EventKind::kReply, connection);
}

void Endpoints::on_late_reply(uint32_t packet) { fabric_.send_control(packets_[packet].next, packet); }

void Endpoints::on_reply(uint32_t id) {
  Connection& c = connections_[id];
  c.replying = false;
  while (!c.replies.empty() && packets_[c.replies.head].at <= events_.now()) {
    fabric_.send_control(nics_[c.destination].port, c.replies.pop(packets_));
  }
  if (c.replies.empty()) return;
  c.replying = true;
  events_.push(packets_[c.replies.head].at, EventKind::kReply, id);
}

// DCQCN's notification point (SIGCOMM 2015, 3.1): at most one CNP in an interval.
void Endpoints::notify(Connection& c, uint32_t connection) {
  if (c.last_cnp != kNoTick && events_.now() - c.last_cnp < ticks(hosts_.cnp_interval)) return;
  c.last_cnp = events_.now();
  ++totals_.cnps;
  const uint32_t id = control_packet(PacketKind::kCnp, connection, true);
  NicState& nic = nics_[c.destination];
  if (hosts_.cnp_delay.count() == 0) return fabric_.send_control(nic.port, id);
  packets_[id].at = events_.now() + ticks(hosts_.cnp_delay);
  const bool first = nic.notices.empty();
  nic.notices.push(packets_, id);
  if (first) events_.push(packets_[id].at, EventKind::kNotify, c.destination);
}

void Endpoints::on_notify(uint32_t id) {
  NicState& nic = nics_[id];
  fabric_.send_control(nic.port, nic.notices.pop(packets_));
  if (!nic.notices.empty()) events_.push(packets_[nic.notices.head].at, EventKind::kNotify, id);
}

// In order. The traffic may post, connect and close while it is told.
void Endpoints::deliver(uint32_t id, uint16_t generation) {
  for (;;) {
    Connection& c = connections_[id];
    if (c.generation != generation || c.delivering == kNone || c.deliver_end > c.expected) return;
    const Message m = messages_[c.delivering];
    c.delivering = m.next;
    if (m.next != kNone) c.deliver_end = messages_[m.next].end_psn;
    c.delivered += m.bytes;
    if (c.delivering == kNone) c.active += events_.now() - c.active_since;
    deliveries_.add(id, m.tag, m.posted, events_.now(), m.bytes,
                    message_alone(paths_[c.path], hosts_, m.bytes));
    traffic_.delivered(*this, {id, m.tag, time(events_.now())});
  }
}

void Endpoints::announce(Connection& c, uint32_t id) {
  const uint32_t packet = control_packet(PacketKind::kAnnounce, id, false);
  packets_[packet].total = c.posted_bytes;
  fabric_.send_control(nics_[c.source].port, packet);
  if (c.deadline != kNoTick) return;
  c.deadline = events_.now() + timeout(c);
  arm_timeout(c, id);
}

void Endpoints::grant(uint32_t nic) {
  Admission::Grant grant;
  while (admission_->next(nic, grant)) {
    const uint32_t packet = control_packet(PacketKind::kGrant, grant.connection, true);
    packets_[packet].total = grant.total;
    fabric_.send_control(nics_[nic].port, packet);
  }
}

}  // namespace megascale::sim
