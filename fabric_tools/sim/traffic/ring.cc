#include "fabric_tools/sim/traffic/ring.h"

#include <utility>

namespace megascale::sim {

Ring::Ring(std::string name, const Groups& groups, Bytes buffer, uint32_t rounds)
    : name_(std::move(name)), buffer_(buffer), rounds_(rounds) {
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

// In step s the rank at place p passes chunk p - s on; chunks differ by a byte where the buffer does not
// divide.
void Ring::send(Wire& wire, const Rank& rank, uint32_t step) {
  const uint32_t chunk = (rank.place + rank.size - step % rank.size) % rank.size;
  const Bytes bytes = buffer_ / rank.size + (chunk < buffer_ % rank.size ? 1 : 0);
  wire.post(rank.to_next, bytes, rank.next, Time{});
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
