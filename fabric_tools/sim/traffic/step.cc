#include "fabric_tools/sim/traffic/step.h"

#include <utility>

#include "fabric_tools/sim/traffic/ring.h"

namespace megascale::sim {
namespace {

constexpr ConnectionId kUnconnected = UINT32_MAX;

// Tags: the communication, and the place in its ring of who receives; or that its computing is over.
constexpr unsigned kPlaceBits = 24;
constexpr uint32_t kComputed = (1u << kPlaceBits) - 1;
constexpr uint64_t tag_of(uint32_t index, uint32_t place) { return uint64_t{index} << kPlaceBits | place; }

constexpr uint64_t key_of(Placement::Way way) { return uint64_t{way.source} << 32 | way.destination; }

bool is_ring(const Communication& c) {
  return c.kind != CommunicationKind::kCompute && c.kind != CommunicationKind::kSend && c.ranks.size() > 1;
}

}  // namespace

StepTraffic::StepTraffic(TrainingStep step, Placement placement, Rate inside)
    : step_(std::move(step)),
      placement_(std::move(placement)),
      inside_(inside),
      states_(step_.communications.size() + 1) {
  for (size_t i = 0; i < step_.communications.size(); ++i) {
    const Communication& c = step_.communications[i];
    count_messages(c);
    for (uint32_t leader : c.after) ++states_[leader + 1].first_follower;  // how many, for now
    states_[i].waits_for = static_cast<uint32_t>(c.after.size());
  }
  for (size_t i = 1; i < states_.size(); ++i) states_[i].first_follower += states_[i - 1].first_follower;
  followers_.resize(states_.back().first_follower);
  std::vector<uint32_t> filled(states_.size());
  for (uint32_t i = 0; i < step_.communications.size(); ++i)
    for (uint32_t leader : at(i).after) followers_[states_[leader].first_follower + filled[leader]++] = i;
}

uint32_t StepTraffic::rounds(const Communication& c) {
  return c.kind == CommunicationKind::kAllReduce ? 2 : 1;
}

void StepTraffic::count_messages(const Communication& c) {
  if (!is_ring(c) && c.kind != CommunicationKind::kSend) return;
  const size_t senders = is_ring(c) ? c.ranks.size() : 1;
  for (size_t i = 0; i < senders; ++i) {
    const auto way = placement_.way(c.ranks[i], c.ranks[(i + 1) % c.ranks.size()]);
    if (way.source == kNone) continue;
    pairs_.emplace(key_of(way), kUnconnected);
    messages_ += is_ring(c) ? steps(c) : 1;
  }
}

void StepTraffic::begin(Wire& wire) {
  for (uint32_t i = 0; i < step_.communications.size(); ++i)
    if (at(i).after.empty()) wait(wire, i, Time{});
}

void StepTraffic::wait(Wire& wire, uint32_t index, Time now) {
  // A wake even where there is nothing to compute: chains of what stays inside hosts would else be recursion.
  wire.wake(now + at(index).compute, tag_of(index, kComputed));
}

void StepTraffic::start(Wire& wire, uint32_t index, Time now) {
  const Communication& c = at(index);
  if (c.kind == CommunicationKind::kSend) {
    states_[index].ranks_left = 1;
    return send(wire, index, 0, 0, now);
  }
  if (!is_ring(c)) return end(wire, index, now);
  const auto n = static_cast<uint32_t>(c.ranks.size());
  states_[index].ranks_left = n;
  states_[index].received.assign(n, 0);
  for (uint32_t place = 0; place < n; ++place) send(wire, index, place, 0, now);
}

void StepTraffic::send(Wire& wire, uint32_t index, uint32_t place, uint32_t step, Time now) {
  const Communication& c = at(index);
  const auto n = static_cast<uint32_t>(c.ranks.size());
  const uint32_t next = (place + 1) % n;
  const Bytes bytes = is_ring(c) ? ring_chunk(c.bytes, n, place, step) : c.bytes;
  const auto way = placement_.way(c.ranks[place], c.ranks[next]);
  const uint64_t tag = tag_of(index, next);
  if (way.source == kNone) return wire.wake(now + inside_.time_for(bytes), tag);
  ConnectionId& connection = pairs_.at(key_of(way));
  if (connection == kUnconnected) connection = wire.connect(way.source, way.destination);
  wire.post(connection, bytes, tag, now);
}

void StepTraffic::arrived(Wire& wire, uint64_t tag, Time now) {
  const auto index = static_cast<uint32_t>(tag >> kPlaceBits);
  const auto place = static_cast<uint32_t>(tag & kComputed);
  const Communication& c = at(index);
  State& state = states_[index];
  if (is_ring(c)) {
    const uint32_t received = ++state.received[place];
    if (received < steps(c)) return send(wire, index, place, received, now);
  }
  if (--state.ranks_left == 0) end(wire, index, now);
}

void StepTraffic::end(Wire& wire, uint32_t index, Time now) {
  ++done_;
  states_[index].received = {};
  for (uint32_t f = states_[index].first_follower; f < states_[index + 1].first_follower; ++f)
    if (--states_[followers_[f]].waits_for == 0) wait(wire, followers_[f], now);
}

void StepTraffic::woken(Wire& wire, uint64_t tag, Time now) {
  if ((tag & kComputed) == kComputed) start(wire, static_cast<uint32_t>(tag >> kPlaceBits), now);
  else arrived(wire, tag, now);
}

void StepTraffic::delivered(Wire& wire, const Delivery& delivery) {
  arrived(wire, delivery.tag, delivery.at);
}

}  // namespace megascale::sim
