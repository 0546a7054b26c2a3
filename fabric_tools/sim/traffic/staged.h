// All-to-all as NCCL does it: in stage k, rank r sends to r+k and receives from r-k, and goes on to the next
// stage when both are done. The receiver grants, so a message waits until both its ranks are in its stage.
#pragma once
#include <vector>

#include "fabric_tools/sim/traffic/groups.h"
#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

class StagedAllToAll : public Counted {
 public:
  StagedAllToAll(const Groups&, Bytes a_pair);

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  uint64_t connections() const override { return ranks_.size(); }

 private:
  struct Rank {
    uint32_t nic, place, size;  // in its group
    uint32_t stage = 0;
    uint32_t done = 0;  // of this stage's send and receive
  };

  void enter_next_stage(Wire&, uint32_t rank);
  void finish_one(Wire&, uint32_t rank);
  uint32_t after(uint32_t rank, uint32_t steps) const;  // r + steps, around its group

  Bytes bytes_;
  std::vector<Rank> ranks_;
};

}  // namespace megascale::sim
