#include "fabric_tools/sim/traffic/pipeline.h"

#include <algorithm>

#include "fabric_tools/placement/step.h"

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
    const Pass pass = one_forward_one_backward(stage.place, stage.depth, micro_batches_, stage.step);
    const bool ready = pass.forward ? first || stage.activations > pass.micro_batch
                                    : last || stage.gradients > pass.micro_batch;
    if (!ready) return;
    stage.free = std::max(stage.free, now) + (pass.forward ? forward_ : 2 * forward_);
    if (pass.forward && !last) wire.post(stage.to_next, bytes_, uint64_t{index + 1} << 1, stage.free);
    if (!pass.forward && !first)
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
