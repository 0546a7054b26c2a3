#include "plugin/host/plan.h"

#include <algorithm>
#include <functional>

namespace megascale::host {
namespace {

constexpr uint32_t kSmallestPiece = 16 << 10;  // below it a message costs more than its pipelining gives

struct Range {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

constexpr uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
constexpr uint64_t ceil_div(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

int modulo(int n, int ranks) { return ((n % ranks) + ranks) % ranks; }

// How a segment of so many bytes is cut so that a block's pipeline is filled.
uint32_t chunk_for(uint64_t segment, uint32_t largest) {
  const uint64_t even = round_up(ceil_div(segment, kChunksPerSegment), kAlignment);
  return static_cast<uint32_t>(std::min<uint64_t>(largest, std::max<uint64_t>(even, kSmallestPiece)));
}

// The k-th chunk of a segment that begins at `offset`; empty past its end.
Range cut(uint64_t offset, uint64_t segment, uint32_t chunk, uint32_t k) {
  const uint64_t begin = static_cast<uint64_t>(k) * chunk;
  if (begin >= segment) return {};
  return {offset + begin, static_cast<uint32_t>(std::min<uint64_t>(chunk, segment - begin))};
}

// A block's steps. `cell(segment, k)` is a chunk's range; `first` is the segment sent at step 0 and one less
// (mod N) follows at every step. What a rank receives at step t it sends at step t + 1.
struct Block {
  int ranks;
  int steps;
  int first;
  std::function<Range(int, uint32_t)> cell;
};

using SendOf = std::function<SendStep(int t, Range)>;
using ReceiveOf = std::function<ReceiveStep(int t, Range)>;

// Counts of sends and receives after each (t, k) of the block, by which steps wait for one another.
class Counts {
 public:
  explicit Counts(int steps) : after_(static_cast<size_t>(steps) * kChunksPerSegment, 0) {}
  uint32_t& at(int t, uint32_t k) { return after_[static_cast<size_t>(t) * kChunksPerSegment + k]; }

 private:
  std::vector<uint32_t> after_;
};

void append(Plan& plan, const Block& block, const SendOf& send_of, const ReceiveOf& receive_of) {
  Counts sends(block.steps), receives(block.steps);
  for (int t = 0; t < block.steps; ++t) {
    for (uint32_t k = 0; k < kChunksPerSegment; ++k) {
      const Range out = block.cell(modulo(block.first - t, block.ranks), k);
      if (out.bytes > 0) {
        SendStep step = send_of(t, out);
        if (t > 0) step.after_receives = receives.at(t - 1, k);
        plan.sends.push_back(step);
        sends.at(t, k) = static_cast<uint32_t>(plan.sends.size());
      }
      const Range in = block.cell(modulo(block.first - t - 1, block.ranks), k);
      if (in.bytes > 0) {
        ReceiveStep step = receive_of(t, in);
        // A place that was sent from may be overwritten only when that send is over.
        if (step.then == ReceiveStep::Then::place && t + 1 >= block.ranks) {
          step.after_sends = sends.at(t + 1 - block.ranks, k);
        }
        plan.receives.push_back(step);
        receives.at(t, k) = static_cast<uint32_t>(plan.receives.size());
      }
    }
  }
}

// Walks a part of every rank's share in blocks; `each(offset in the share, bytes, chunk)`.
template <class Each>
void blocks_of_share(Part part, uint32_t largest, Each each) {
  const uint64_t whole = static_cast<uint64_t>(kChunksPerSegment) * largest;
  for (uint64_t at = part.begin; at < part.end; at += whole) {
    const uint64_t bytes = std::min<uint64_t>(whole, part.end - at);
    each(at, bytes, chunk_for(bytes, largest));
  }
}

}  // namespace

Part part_of(uint64_t bytes, int part, int parts) {
  const uint64_t each = round_up(ceil_div(bytes, static_cast<uint64_t>(parts)), kAlignment);
  const uint64_t begin = std::min(bytes, each * static_cast<uint64_t>(part));
  return {begin, std::min(bytes, begin + each)};
}

Plan plan_all_reduce(const Ring& ring, Part part) {
  Plan plan;
  if (ring.ranks == 1) return plan;
  const auto n = static_cast<uint64_t>(ring.ranks);
  const uint64_t whole = n * kChunksPerSegment * ring.chunk;
  for (uint64_t at = part.begin; at < part.end; at += whole) {
    const uint64_t bytes = std::min(whole, part.end - at);
    const uint64_t segment = round_up(ceil_div(bytes, n), kAlignment);
    const uint32_t chunk = chunk_for(segment, ring.chunk);
    auto cell = [=](int s, uint32_t k) {
      const uint64_t begin = segment * static_cast<uint64_t>(s);
      if (begin >= bytes) return Range{};
      return cut(at + begin, std::min(segment, bytes - begin), chunk, k);
    };
    const int last_reduction = ring.ranks - 2;
    append(
        plan, Block{ring.ranks, 2 * (ring.ranks - 1), ring.rank, cell},
        [&](int t, Range r) {
          return SendStep{r.offset, r.bytes, 0, t == 0 ? SendStep::From::input : SendStep::From::output};
        },
        [&](int t, Range r) {
          const auto then = t <= last_reduction ? ReceiveStep::Then::reduce : ReceiveStep::Then::place;
          return ReceiveStep{r.offset, r.offset, r.bytes, 0, then};
        });
  }
  return plan;
}

Plan plan_reduce_scatter(const Ring& ring, Part part, uint64_t share) {
  Plan plan;
  if (ring.ranks == 1) return plan;
  blocks_of_share(part, ring.chunk, [&](uint64_t at, uint64_t bytes, uint32_t chunk) {
    auto cell = [=](int s, uint32_t k) {
      return cut(share * static_cast<uint64_t>(s) + at, bytes, chunk, k);
    };
    const uint64_t mine = share * static_cast<uint64_t>(ring.rank);
    append(
        plan, Block{ring.ranks, ring.ranks - 1, modulo(ring.rank - 1, ring.ranks), cell},
        [&](int t, Range r) {
          return SendStep{r.offset, r.bytes, 0, t == 0 ? SendStep::From::input : SendStep::From::slot};
        },
        [&](int t, Range r) {
          if (t < ring.ranks - 2)
            return ReceiveStep{0, r.offset, r.bytes, 0, ReceiveStep::Then::reduce_ahead};
          return ReceiveStep{r.offset - mine, r.offset, r.bytes, 0, ReceiveStep::Then::reduce};
        });
  });
  return plan;
}

Plan plan_all_gather(const Ring& ring, Part part, uint64_t share) {
  Plan plan;
  if (ring.ranks == 1) return plan;
  blocks_of_share(part, ring.chunk, [&](uint64_t at, uint64_t bytes, uint32_t chunk) {
    auto cell = [=](int s, uint32_t k) {
      return cut(share * static_cast<uint64_t>(s) + at, bytes, chunk, k);
    };
    const uint64_t mine = share * static_cast<uint64_t>(ring.rank);
    append(
        plan, Block{ring.ranks, ring.ranks - 1, ring.rank, cell},
        [&](int t, Range r) {
          if (t == 0) return SendStep{r.offset - mine, r.bytes, 0, SendStep::From::input};
          return SendStep{r.offset, r.bytes, 0, SendStep::From::output};
        },
        [&](int, Range r) {
          return ReceiveStep{r.offset, 0, r.bytes, 0, ReceiveStep::Then::place};
        });
  });
  return plan;
}

Plan plan_broadcast(const Ring& ring, Part part, int root) {
  Plan plan;
  const int position = modulo(ring.rank - root, ring.ranks);
  for (uint64_t at = part.begin; at < part.end; at += ring.chunk) {
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(ring.chunk, part.end - at));
    if (position > 0) plan.receives.push_back({at, 0, bytes, 0, ReceiveStep::Then::place});
    if (position < ring.ranks - 1) {
      plan.sends.push_back({at, bytes, static_cast<uint32_t>(plan.receives.size()), SendStep::From::output});
    }
  }
  return plan;
}

Plan plan_send(uint64_t bytes, uint32_t chunk) {
  Plan plan;
  uint64_t at = 0;
  do {
    const auto piece = static_cast<uint32_t>(std::min<uint64_t>(chunk, bytes - at));
    plan.sends.push_back({at, piece, 0, SendStep::From::input});
    at += piece;
  } while (at < bytes);
  return plan;
}

Plan plan_receive(uint64_t bytes, uint32_t chunk) {
  Plan plan;
  uint64_t at = 0;
  do {
    const auto piece = static_cast<uint32_t>(std::min<uint64_t>(chunk, bytes - at));
    plan.receives.push_back({at, 0, piece, 0, ReceiveStep::Then::place});
    at += piece;
  } while (at < bytes);
  return plan;
}

}  // namespace megascale::host
