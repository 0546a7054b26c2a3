// A collective as two lists of steps, one for each direction of a connection: pure arithmetic, the same at
// every rank, so that both ends of a connection agree on every message without a word.
//
// A ring moves data in blocks: in a block each of the N segments is cut into a few chunks, and while one
// chunk is being reduced the next ones travel. Rank i sends segment (i - t) mod N at step t and receives
// segment (i - t - 1) mod N, so every segment is reduced in the same order of ranks at every run, and at one
// place. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
#pragma once
#include <cstdint>
#include <vector>

namespace megascale::host {

struct SendStep {
  enum class From : uint8_t {
    input,   // the caller's, at `offset`
    output,  // the caller's, at `offset`
    slot,    // what the receive before `after_receives` left in its scratch slot, which is free once this is
             // sent
  };
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t after_receives = 0;  // may start when so many receives of this plan are finished
  From from = From::input;
};

struct ReceiveStep {
  enum class Then : uint8_t {
    place,         // received straight into output at `offset`
    reduce,        // received into a slot; output at `offset` = slot op input at `operand`
    reduce_ahead,  // received into a slot; slot = slot op input at `operand`, and a later send takes it from
                   // there
  };
  uint64_t offset = 0;
  uint64_t operand = 0;
  uint32_t bytes = 0;
  uint32_t after_sends = 0;  // may be posted when so many sends of this plan are finished
  Then then = Then::place;
};

struct Plan {
  std::vector<SendStep> sends;
  std::vector<ReceiveStep> receives;
};

inline constexpr uint32_t kChunksPerSegment = 4;  // of a block: what can travel while one is being reduced
inline constexpr uint32_t kAlignment = 128;       // of chunks and of the parts of several rings, in bytes

struct Ring {
  int rank = 0;
  int ranks = 1;
  uint32_t chunk = 1 << 18;  // bytes, a multiple of kAlignment
};

// A part of a buffer, or of each rank's share of it, that one of several rings takes; bytes from its
// beginning.
struct Part {
  uint64_t begin = 0;
  uint64_t end = 0;
};
Part part_of(uint64_t bytes, int part, int parts);

Plan plan_all_reduce(const Ring&, Part);  // of a buffer; input and output have the same shape
Plan plan_reduce_scatter(const Ring&, Part, uint64_t share);  // of each share; output holds one share
Plan plan_all_gather(const Ring&, Part, uint64_t share);      // of each share; input holds one share
Plan plan_broadcast(const Ring&, Part, int root);             // everything is in output
Plan plan_send(uint64_t bytes, uint32_t chunk);               // no bytes: one empty message
Plan plan_receive(uint64_t bytes, uint32_t chunk);

}  // namespace megascale::host
