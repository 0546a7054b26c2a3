// Messages that wait for nothing: a lone flow, a permutation, an incast, an all-to-all at once. Each has a
// connection of its own, and starts when it may.
#pragma once
#include <functional>
#include <utility>

#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

struct Flow {
  uint32_t source = 0, destination = 0;  // NICs
  Bytes bytes = 0;
  Time at{};
};

class Flows : public Counted {
 public:
  // `flow_of(i)` for i below `count`; nothing is stored, since an all-to-all has n² of them.
  Flows(uint64_t count, std::function<Flow(uint64_t)> flow_of) : flow_of_(std::move(flow_of)) {
    count_ = count;
  }

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  uint64_t connections() const override { return count_; }

 private:
  std::function<Flow(uint64_t)> flow_of_;
};

}  // namespace megascale::sim
