#include "fabric_tools/bench/pattern.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "plugin/host/reduce.h"

namespace megascale {
namespace {

using Data = std::vector<uint8_t>;
constexpr size_t kCount = 997;

Data input(const Pattern& p, int rank, uint32_t iteration) {
  Data data(p.input_elements(kCount) * host::size_of(p.type));
  p.fill_input(data.data(), rank, kCount, iteration);
  return data;
}

// What a rank must get, put together from the inputs by plain copying and reducing.
Data output(const Pattern& p, int rank, uint32_t iteration) {
  const size_t share = kCount * host::size_of(p.type);
  const auto own = static_cast<long>(share) * rank;
  Data result;
  auto reduced = [&](long from) {
    const Data first = input(p, 0, iteration);
    result.assign(first.begin() + from, first.begin() + from + static_cast<long>(share));
    for (int other = 1; other < p.ranks; ++other) {
      const Data next = input(p, other, iteration);
      host::reduce(result.data(), result.data(), next.data() + from, kCount, p.type, p.op);
    }
  };
  auto add = [&](int from, long offset) {
    const Data data = input(p, from, iteration);
    result.insert(result.end(), data.begin() + offset, data.begin() + offset + static_cast<long>(share));
  };
  switch (p.collective) {
    case Collective::all_reduce:
      reduced(0);
      break;
    case Collective::reduce_scatter:
      reduced(own);
      break;
    case Collective::broadcast:
      add(p.root, 0);
      break;
    case Collective::sendrecv:
      add((rank + p.ranks - 1) % p.ranks, 0);
      break;
    case Collective::all_gather:
      for (int other = 0; other < p.ranks; ++other) add(other, 0);
      break;
    case Collective::all_to_all:
      for (int other = 0; other < p.ranks; ++other) add(other, own);
      break;
    case Collective::barrier:
      break;
  }
  return result;
}

class PatternTest : public testing::TestWithParam<Collective> {};

TEST_P(PatternTest, RightResultsAreRight) {
  for (host::DataType type : host::kDataTypes) {
    for (host::ReduceOp op : host::kReduceOps) {
      for (int ranks : {1, 2, 4, 70}) {
        const Pattern p{GetParam(), type, op, ranks, ranks - 1};
        const int rank = ranks / 2;
        EXPECT_EQ(p.wrong_elements(output(p, rank, 5).data(), rank, kCount, 5), 0U)
            << host::name_of(type) << " " << host::name_of(op) << " " << ranks;
        if (ranks > 4) break;
      }
    }
  }
}

TEST_P(PatternTest, EveryChangedElementIsCounted) {
  const Pattern p{GetParam(), host::DataType::f32, host::ReduceOp::sum, 3, 0};
  Data data = output(p, 1, 1);
  const size_t elements = p.output_elements(kCount);
  for (size_t i = 0; i < elements; i += 10) data[i * 4 + 3] ^= 0x40;
  EXPECT_EQ(p.wrong_elements(data.data(), 1, kCount, 1), (elements + 9) / 10);
}

TEST_P(PatternTest, AnotherIterationsResultIsWrong) {
  const Pattern p{GetParam(), host::DataType::i32, host::ReduceOp::sum, 3, 0};
  const Data stale = output(p, 1, 1);
  EXPECT_GT(p.wrong_elements(stale.data(), 1, kCount, 2), p.output_elements(kCount) / 2);
}

INSTANTIATE_TEST_SUITE_P(Collectives, PatternTest,
                         testing::Values(Collective::all_reduce, Collective::all_gather,
                                         Collective::reduce_scatter, Collective::broadcast,
                                         Collective::sendrecv, Collective::all_to_all));

TEST(Pattern, SumsOfManyRanksStayExactInBf16) {
  const Pattern p{Collective::all_reduce, host::DataType::bf16, host::ReduceOp::sum, 300, 0};
  EXPECT_EQ(p.wrong_elements(output(p, 0, 3).data(), 0, kCount, 3), 0U);
}

}  // namespace
}  // namespace megascale
