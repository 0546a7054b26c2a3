// Pipeline parallel training: activations of each micro-batch go from stage to stage, gradients come back.
// Every stage works by the one-forward-one-backward schedule (placement/step.h); a backward pass takes twice
// as long as a forward pass.
#pragma once
#include <vector>

#include "fabric_tools/sim/traffic/groups.h"
#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

class Pipeline : public Counted {
 public:
  // Each group is one pipeline: a NIC for each stage, two or more. `forward`: time of a forward pass.
  Pipeline(const Groups&, Bytes activations, uint32_t micro_batches, Duration forward);

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  uint64_t connections() const override { return connections_; }

 private:
  struct Stage {
    uint32_t nic, place, depth;               // `place`: 0 is the first of `depth` stages
    uint32_t step = 0;                        // of its schedule: 2 for each micro-batch
    uint32_t activations = 0, gradients = 0;  // that arrived
    Time free{};
    ConnectionId to_next = 0, to_previous = 0;
  };

  void advance(Wire&, uint32_t stage, Time now);

  Bytes bytes_;
  uint32_t micro_batches_;
  Duration forward_;
  uint64_t connections_ = 0;
  std::vector<Stage> stages_;  // of one pipeline after the other
};

}  // namespace megascale::sim
