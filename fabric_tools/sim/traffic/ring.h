// Ring collectives: all-reduce, reduce-scatter and all-gather. The NICs of a ring pass chunks of 1/n of the
// buffer to their neighbour, 2(n-1) or n-1 times; each step waits for the step before on the neighbour's
// connection (Patarasuk, Yuan, JPDC 2009). The state is a few words for each NIC, however many messages.
#pragma once
#include <vector>

#include "fabric_tools/sim/traffic/groups.h"
#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

// What the NIC at `place` of a ring of `size` passes on in a step: chunk place - step of the buffer. Chunks
// differ by a byte where the buffer does not divide.
Bytes ring_chunk(Bytes buffer, uint32_t size, uint32_t place, uint32_t step);

class Ring : public Counted {
 public:
  // `rounds`: 2 for an all-reduce, 1 for the others. Every group has two NICs or more.
  Ring(const Groups&, Bytes buffer, uint32_t rounds);

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  uint64_t connections() const override { return ranks_.size(); }

 private:
  struct Rank {
    uint32_t nic, next;     // `next`: of the ring, in ranks_
    uint32_t place, size;   // in its ring
    uint32_t received = 0;  // steps
    ConnectionId to_next = 0;
  };

  void send(Wire&, const Rank&, uint32_t step);

  Bytes buffer_;
  uint32_t rounds_;
  std::vector<Rank> ranks_;
};

}  // namespace megascale::sim
