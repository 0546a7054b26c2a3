#include "fabric_tools/sim/traffic/pipeline.h"

#include <algorithm>

namespace megascale::sim {

Pipeline::Pipeline(const Groups& groups, Bytes activations, uint32_t micro_batches, Duration forward)
    : bytes_(activations), micro_batches_(micro_batches), forward_(forward) {
  for (const auto& group : groups) {
    const auto depth = static_cast<uint32_t>(group.size());
    for (uint32_t i = 0; i < depth; ++i) stages_.push_back({group[i], i, depth});
    connections_ += 2 * (depth - 1);
    count_ += uint64_t{2} * (depth - 1) * micro_batches_;
  }
}

// The schedule of a stage: its first forward passes, then pairs, then the backward passes that are left.
Pipeline::Work Pipeline::work_at(const Stage& stage, uint32_t step) const {
  const uint32_t first = std::min(stage.depth - stage.place - 1, micro_batches_);
  if (step < first) return {true, step};
  const uint32_t pair = (step - first) / 2;
  if (pair >= micro_batches_ - first) return {false, step - micro_batches_};
  if ((step - first) % 2 == 0) return {true, first + pair};
  return {false, pair};
}

void Pipeline::begin(Wire& wire) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    if (stage.place + 1 < stage.depth) stage.to_next = wire.connect(stage.nic, stages_[i + 1].nic);
    if (stage.place > 0) stage.to_previous = wire.connect(stage.nic, stages_[i - 1].nic);
  }
  for (uint32_t i = 0; i < stages_.size(); ++i) advance(wire, i, Time{});
}

// Does what the stage can do with what has arrived. It is called at every arrival, so a pass that had to wait
// starts now, or when the one before it is over.
void Pipeline::advance(Wire& wire, uint32_t index, Time now) {
  Stage& stage = stages_[index];
  const bool first = stage.place == 0, last = stage.place + 1 == stage.depth;
  for (; stage.step < 2 * micro_batches_; ++stage.step) {
    const Work work = work_at(stage, stage.step);
    const bool ready = work.forward ? first || stage.activations > work.micro_batch
                                    : last || stage.gradients > work.micro_batch;
    if (!ready) return;
    stage.free = std::max(stage.free, now) + (work.forward ? forward_ : 2 * forward_);
    if (work.forward && !last) wire.post(stage.to_next, bytes_, uint64_t{index + 1} << 1, stage.free);
    if (!work.forward && !first)
      wire.post(stage.to_previous, bytes_, uint64_t{index - 1} << 1 | 1, stage.free);
  }
}

void Pipeline::delivered(Wire& wire, const Delivery& delivery) {
  ++done_;
  const auto index = static_cast<uint32_t>(delivery.tag >> 1);
  Stage& stage = stages_[index];
  const uint32_t came = (delivery.tag & 1) != 0 ? ++stage.gradients : ++stage.activations;
  if (came == micro_batches_) wire.close(delivery.connection);
  advance(wire, index, delivery.at);
}

}  // namespace megascale::sim
