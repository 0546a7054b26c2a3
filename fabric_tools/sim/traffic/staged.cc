#include "fabric_tools/sim/traffic/staged.h"

namespace megascale::sim {

StagedAllToAll::StagedAllToAll(const Groups& groups, Bytes a_pair) : bytes_(a_pair) {
  for (const auto& group : groups) {
    const auto size = static_cast<uint32_t>(group.size());
    for (uint32_t place = 0; place < size; ++place) ranks_.push_back({group[place], place, size});
    count_ += uint64_t{size} * (size - 1);
  }
}

uint32_t StagedAllToAll::after(uint32_t rank, uint32_t steps) const {
  const Rank& r = ranks_[rank];
  return rank - r.place + (r.place + steps) % r.size;
}

void StagedAllToAll::begin(Wire& wire) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) enter_next_stage(wire, rank);
}

// Whoever of two ranks comes second posts their message.
void StagedAllToAll::enter_next_stage(Wire& wire, uint32_t rank) {
  const uint32_t n = ranks_[rank].size;
  const uint32_t stage = ++ranks_[rank].stage;
  ranks_[rank].done = 0;
  if (stage >= n) return;
  const auto post = [&](uint32_t from, uint32_t to) {
    wire.post(wire.connect(ranks_[from].nic, ranks_[to].nic), bytes_, from, Time{});
  };
  const uint32_t to = after(rank, stage), from = after(rank, n - stage);
  if (ranks_[to].stage == stage) post(rank, to);
  if (ranks_[from].stage == stage) post(from, rank);
}

void StagedAllToAll::delivered(Wire& wire, const Delivery& delivery) {
  ++done_;
  wire.close(delivery.connection);
  const auto sender = static_cast<uint32_t>(delivery.tag);
  const uint32_t receiver = after(sender, ranks_[sender].stage);
  finish_one(wire, sender);
  finish_one(wire, receiver);
}

void StagedAllToAll::finish_one(Wire& wire, uint32_t rank) {
  if (++ranks_[rank].done == 2) enter_next_stage(wire, rank);
}

}  // namespace megascale::sim
