// The sending side of a connection: what goes next, what was lost, what the controller is told.
#include <algorithm>

#include "fabric_tools/sim/endpoints.h"

namespace megascale::sim {
namespace {

constexpr uint32_t kDuplicates = 3;  // packets that overtake one on a single path: it was lost
constexpr unsigned kMostDoublings =
    3;  // of the timeout: a link that returns is used again within a millisecond
// In an incast the first round trip takes as long as all buffers hold, and the next ones tell little of those
// that follow: until a connection knows more, its timeout is at least so many times the least one.
constexpr Tick kUnmeasured = 40, kYoung = 10;
constexpr uint32_t kYoungPackets = 64;

}  // namespace

void Endpoints::build(Connection& c) {
  const Rate line = topology_.links[topology_.nics[c.source].link].rate;
  const Duration base = duration(std::max<Tick>(c.base_rtt, 0));
  c.controller = recipe_({line, hosts_.payload, base});
  listen(c, static_cast<uint32_t>(&c - connections_.data()));
}

// What the controller says now.
void Endpoints::listen(Connection& c, uint32_t id) {
  c.window = c.controller->window();
  const Rate rate = c.controller->rate();
  c.pace = rate.is_unlimited() ? 0 : rate.bits_per_second > 0 ? ticks_per_byte(rate) : 1e18;
  const Time next = c.controller->next_tick();
  if (next == kNever) return;
  const Tick at = std::max(ticks(next), events_.now() + 1000);
  if (at >= c.tick_at) return;
  c.tick_at = at;
  events_.push(at, EventKind::kTick, id);
}

void Endpoints::on_tick(uint32_t id) {
  Connection& c = connections_[id];
  if (c.tick_at != events_.now()) return;  // an earlier one was asked for meanwhile
  c.tick_at = kNoTick;
  if (!c.controller) return;
  const Time now = time(events_.now());
  if (c.controller->next_tick() <= now) c.controller->tick(now);
  listen(c, id);
  refresh(id);
}

uint32_t Endpoints::message_of(const Connection& c, uint32_t psn) const {
  uint32_t message = c.oldest;
  while (messages_[message].end_psn <= psn) message = messages_[message].next;
  return message;
}

Bytes Endpoints::offset_of(const Connection& c, uint32_t psn) const {
  if (psn == c.end_psn) return c.posted_bytes;
  const Message& m = messages_[message_of(c, psn)];
  return m.first_byte + Bytes{psn - m.first_psn} * hosts_.payload;
}

Bytes Endpoints::payload_of(const Connection& c, uint32_t psn) const {
  const Message& m = messages_[message_of(c, psn)];
  return psn + 1 < m.end_psn ? hosts_.payload : m.bytes - Bytes{psn - m.first_psn} * hosts_.payload;
}

void Endpoints::send(uint32_t id) {
  Connection& c = connections_[id];
  const bool again = c.lost > 0;
  if (again) {
    while (boards_[c.scoreboard].acked.contains(c.resend, c.una)) ++c.resend;
  }
  const uint32_t psn = again ? c.resend++ : c.next_psn++;
  const Message& m = messages_[again ? message_of(c, psn) : c.sending];
  const Bytes offset = Bytes{psn - m.first_psn} * hosts_.payload;
  const bool last = psn + 1 == m.end_psn;
  const Bytes payload = last ? m.bytes - offset : hosts_.payload;
  if (again) {
    --c.lost;
    c.lost_bytes -= payload;
  } else {
    if (last) c.sending = m.next;
    c.sent_bytes += payload;
  }
  if (psn < c.sent_psn) ++totals_.retransmitted;
  else c.sent_psn = psn + 1;
  ++totals_.data_packets;
  if (setup_.model.switches.balance == Balance::kFlowlet &&
      events_.now() - c.last_send > ticks(setup_.model.switches.flowlet_gap)) {
    balance(c);
  }

  const uint32_t packet = packets_.take();
  Packet& p = packets_[packet];
  p.sent = events_.now();
  p.connection = id;
  p.destination = c.destination;
  p.entropy = c.entropy;
  p.telemetry =
      setup_.model.switches.telemetry && c.controller->wants_telemetry() ? packets_.take_telemetry() : kNone;
  p.psn = p.turn = psn;
  p.size = static_cast<uint16_t>(payload + hosts_.header);
  p.generation = c.generation;
  p.kind = PacketKind::kData;
  p.marked = false;
  p.asks = last;
  p.hops = 0;
  fabric_.transmit(nics_[c.source].port, packet);

  c.last_send = events_.now();
  c.last_size = p.size;
  c.controller->sent(time(events_.now()), payload, c.inflight());
  listen(c, id);
  if (c.deadline == kNoTick) {
    c.deadline = events_.now() + timeout(c);
    arm_timeout(c, id);
  }
  refresh(id);
  if (c.state == Connection::State::kIdle) packets_[packet].asks = true;
}

// A new path, by another hash.
void Endpoints::balance(Connection& c) {
  c.entropy = static_cast<uint32_t>(random_.next());
  c.congested_rounds = 0;
}

// Everything that comes back to a sender.
void Endpoints::on_answer(const Packet& p) {
  Connection& c = connections_[p.connection];
  const Time now = time(events_.now());
  const Bytes newly = p.total > c.acked_bytes ? p.total - c.acked_bytes : 0;
  c.acked_bytes += newly;
  if (p.cumulative > c.una) advance(c, p.cumulative);
  Bytes lost = 0;
  if (p.kind == PacketKind::kNack) {
    lost = rewind(c, std::max(p.cumulative, c.una));
  } else if (selective_ && p.psn >= c.una) {
    lost = note_out_of_order(c, p.psn);
  }
  const Tick rtt = events_.now() - p.sent;
  // Up at once: a queue grows within a round trip, and a timeout by the old figure would be wrong.
  c.smoothed_rtt = rtt > c.smoothed_rtt ? rtt : c.smoothed_rtt + (rtt - c.smoothed_rtt) / 8;
  if (newly > 0) c.backoff = 0;
  if (!c.outstanding()) c.deadline = kNoTick;
  else if (newly > 0 || p.kind == PacketKind::kNack) c.deadline = events_.now() + timeout(c);
  arm_timeout(c, p.connection);
  if (setup_.model.switches.balance == Balance::kPlb) count_round(c, newly, p.marked);

  // In order, what has arrived is what comes before the first that has not.
  const uint64_t sequence = c.scoreboard == kNone ? c.acked_bytes : offset_of(c, c.una);
  c.controller->ack({.now = now,
                     .sequence = sequence,
                     .bytes = newly,
                     .rtt = duration(rtt),
                     .remote_hold = Duration(hosts_.remote_hold ? p.hold : 0),
                     .ecn_marked = p.marked && !hosts_.cnp,
                     .hops = p.hops});
  if (p.telemetry != kNone) {
    const TelemetryRecord& record = packets_.telemetry(p.telemetry);
    c.controller->telemetry({now, sequence, {record.hops, record.count}});
  }
  if (lost > 0) c.controller->loss(now, lost);
  listen(c, p.connection);
  refresh(p.connection);
}

// All below `cumulative` has arrived.
void Endpoints::advance(Connection& c, uint32_t cumulative) {
  if (c.scoreboard != kNone) {
    PacketSet& acked = boards_[c.scoreboard].acked;
    for (uint32_t psn = c.una; psn < cumulative; ++psn) {
      const bool known = acked.contains(psn, c.una);
      if (known) acked.erase(psn);
      else if (psn >= c.resend && psn < c.lost_end && c.lost > 0)
        --c.lost, c.lost_bytes -= payload_of(c, psn);
    }
  }
  if (cumulative > c.next_psn) {  // it was sent before a go-back, and had arrived
    c.next_psn = cumulative;
    c.sent_bytes = offset_of(c, cumulative);
    c.sending = cumulative == c.end_psn ? kNone : message_of(c, cumulative);
  }
  c.una = cumulative;
  c.resend = std::max(c.resend, c.una);
  while (c.oldest != kNone && c.oldest_end <= c.una) {
    const uint32_t message = c.oldest;
    c.oldest = messages_[message].next;
    if (c.oldest != kNone) c.oldest_end = messages_[c.oldest].end_psn;
    messages_.give_back(message);
  }
}

// A packet above the first missing one has arrived. Returns the bytes that must be taken for lost by now.
Bytes Endpoints::note_out_of_order(Connection& c, uint32_t psn) {
  PacketSet& acked = board(c).acked;
  if (!acked.contains(psn, c.una)) {
    if (psn >= c.resend && psn < c.lost_end && c.lost > 0) --c.lost, c.lost_bytes -= payload_of(c, psn);
    acked.insert(psn, c.una);
  }
  c.highest = std::max(c.highest, psn + 1);
  const uint32_t overtaken = reorder(c);
  return c.highest > overtaken ? give_up_below(c, c.highest - overtaken) : 0;
}

Bytes Endpoints::give_up_below(Connection& c, uint32_t psn) {
  Bytes lost = 0;
  for (uint32_t i = std::max(c.lost_end, c.una); i < psn; ++i) {
    if (c.scoreboard != kNone && boards_[c.scoreboard].acked.contains(i, c.una)) continue;
    ++c.lost;
    lost += payload_of(c, i);
  }
  c.lost_bytes += lost;
  c.lost_end = std::max(c.lost_end, psn);
  if (c.lost > 0) board(c);
  return lost;
}

// How many packets may overtake one that is not lost: few on one path; as many as a round trip holds on
// several.
uint32_t Endpoints::reorder(const Connection& c) const {
  const Balance balance = setup_.model.switches.balance;
  if (balance == Balance::kEcmp || balance == Balance::kPlb) return kDuplicates;
  const double packet =
      fabric_.port(nics_[c.source].port).per_byte * static_cast<double>(hosts_.payload + hosts_.header);
  return std::max(32u, static_cast<uint32_t>(static_cast<double>(c.smoothed_rtt) / packet));
}

// Go-back-N: all from `psn` on is sent again. Returns how many bytes that is.
Bytes Endpoints::rewind(Connection& c, uint32_t psn) {
  if (psn >= c.next_psn) return 0;
  const Bytes offset = offset_of(c, psn);
  const Bytes lost = c.sent_bytes - offset;
  c.next_psn = psn;
  c.sent_bytes = offset;
  c.sending = message_of(c, psn);
  return lost;
}

void Endpoints::count_round(Connection& c, Bytes newly, bool marked) {
  c.round_bytes += newly;
  if (marked) c.round_marked += newly;
  if (c.acked_bytes < c.round_end) return;
  c.congested_rounds = c.round_bytes > 0 && 2 * c.round_marked >= c.round_bytes ? c.congested_rounds + 1 : 0;
  c.round_end = c.sent_bytes;
  c.round_bytes = c.round_marked = 0;
  if (c.congested_rounds >= hosts_.plb_rounds) balance(c);
}

Tick Endpoints::timeout(const Connection& c) const {
  if (hosts_.fixed_timeout) return ticks(*hosts_.fixed_timeout);
  const Tick least = ticks(hosts_.least_timeout);
  const Tick floor = least * (c.smoothed_rtt == 0 ? kUnmeasured : c.una < kYoungPackets ? kYoung : 1);
  const Tick usual = std::max(floor, 4 * c.smoothed_rtt);
  return usual << std::min<unsigned>(c.backoff, kMostDoublings);
}

// One event waits for each connection; it is moved on when it comes too early.
void Endpoints::arm_timeout(Connection& c, uint32_t id) {
  if (c.deadline >= c.timeout_at) return;
  c.timeout_at = c.deadline;
  events_.push(c.deadline, EventKind::kTimeout, id);
}

void Endpoints::on_timeout(uint32_t id) {
  Connection& c = connections_[id];
  if (c.timeout_at != events_.now()) return;
  c.timeout_at = kNoTick;
  if (c.deadline > events_.now()) return arm_timeout(c, id);
  if (admission_ && c.granted < c.posted_bytes) announce(c, id);  // or the grant was lost
  c.deadline = kNoTick;
  if (c.outstanding()) {
    ++totals_.timeouts;
    if (selective_) {
      c.resend = c.lost_end = c.una;
      c.lost = 0;
      c.lost_bytes = 0;
      give_up_below(c, c.next_psn);
    } else {
      rewind(c, c.una);
    }
    if (c.backoff < UINT8_MAX) ++c.backoff;
    if (setup_.model.switches.balance == Balance::kPlb) balance(c);
    c.controller->timeout(time(events_.now()));
    listen(c, id);
    c.last_size =
        0;  // one packet goes at once, whatever the pace has become: it asks whether the path is back
  }
  if (c.next_psn < c.end_psn || c.lost > 0) {
    c.deadline = events_.now() + timeout(c);
    arm_timeout(c, id);
  }
  refresh(id);
}

}  // namespace megascale::sim
