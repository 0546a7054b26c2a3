#include "fabric_tools/sim/traffic/ring.h"

namespace megascale::sim {

Bytes ring_chunk(Bytes buffer, uint32_t size, uint32_t place, uint32_t step) {
  const uint32_t chunk = (place + size - step % size) % size;
  return buffer / size + (chunk < buffer % size ? 1 : 0);
}

Ring::Ring(const Groups& groups, Bytes buffer, uint32_t rounds) : buffer_(buffer), rounds_(rounds) {
  for (const auto& group : groups) {
    const auto first = static_cast<uint32_t>(ranks_.size()), size = static_cast<uint32_t>(group.size());
    for (uint32_t i = 0; i < size; ++i) ranks_.push_back({group[i], first + (i + 1) % size, i, size});
    count_ += uint64_t{size} * rounds_ * (size - 1);
  }
}

void Ring::begin(Wire& wire) {
  for (Rank& rank : ranks_) {
    rank.to_next = wire.connect(rank.nic, ranks_[rank.next].nic);
    send(wire, rank, 0);
  }
}

void Ring::send(Wire& wire, const Rank& rank, uint32_t step) {
  wire.post(rank.to_next, ring_chunk(buffer_, rank.size, rank.place, step), rank.next, Time{});
}

void Ring::delivered(Wire& wire, const Delivery& delivery) {
  ++done_;
  Rank& receiver = ranks_[delivery.tag];
  const uint32_t steps = rounds_ * (receiver.size - 1);
  const uint32_t step = ++receiver.received;
  if (step < steps) send(wire, receiver, step);
  else wire.close(delivery.connection);
}

}  // namespace megascale::sim
