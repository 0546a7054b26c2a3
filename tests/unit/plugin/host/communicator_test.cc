#include "plugin/host/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>
#include <vector>

#include "plugin/host/loader.h"
#include "plugin/host/reduce.h"
#include "tests/unit/plugin/host/ranks.h"

namespace megascale::host {
namespace {

using testing::HasSubstr;

// Bytes of elements that are small whole numbers in every type, a function of (rank, index).
std::vector<uint8_t> filled(DataType type, int rank, size_t count) {
  std::vector<uint8_t> bytes(count * size_of(type));
  for (size_t i = 0; i < count; ++i) {
    const int number = 1 + (rank * 5 + static_cast<int>(i % 1009)) % 3;
    auto put = [&](auto value) { std::memcpy(&bytes[i * sizeof value], &value, sizeof value); };
    switch (type) {
      case DataType::i8:
        put(static_cast<int8_t>(number));
        break;
      case DataType::u8:
        put(static_cast<uint8_t>(number));
        break;
      case DataType::i32:
        put(static_cast<int32_t>(-number));
        break;
      case DataType::u32:
        put(static_cast<uint32_t>(number));
        break;
      case DataType::i64:
        put(static_cast<int64_t>(-number));
        break;
      case DataType::u64:
        put(static_cast<uint64_t>(number));
        break;
      case DataType::f32:
        put(static_cast<float>(number) / 4);
        break;
      case DataType::f64:
        put(static_cast<double>(number) / 4);
        break;
      case DataType::bf16:
        put(float_to_bf16(static_cast<float>(number) / 4));
        break;
    }
  }
  return bytes;
}

// Of all ranks' inputs; exact for these numbers, whatever the order.
std::vector<uint8_t> reduced(DataType type, ReduceOp op, int ranks, size_t count) {
  std::vector<uint8_t> result = filled(type, 0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    reduce(result.data(), result.data(), filled(type, rank, count).data(), count, type, op);
  }
  return result;
}

std::vector<uint8_t> slice(const std::vector<uint8_t>& bytes, size_t begin, size_t length) {
  return {bytes.begin() + static_cast<long>(begin), bytes.begin() + static_cast<long>(begin + length)};
}

void check_reductions(Communicator& c, DataType type, ReduceOp op, size_t count) {
  const auto n = static_cast<size_t>(c.ranks());
  const size_t size = size_of(type);
  const auto mine = filled(type, c.rank(), count);
  std::vector<uint8_t> out(mine.size() + 1, 0xee), in_place = mine;
  auto first = c.all_reduce(mine.data(), out.data(), count, type, op);
  auto second = c.all_reduce(in_place.data(), in_place.data(), count, type, op);
  const auto all = filled(type, c.rank(), count * n);
  std::vector<uint8_t> share(count * size + 1, 0xee), whole = all;
  auto third = c.reduce_scatter(all.data(), share.data(), count, type, op);
  const size_t own = static_cast<size_t>(c.rank()) * count * size;
  auto fourth = c.reduce_scatter(whole.data(), whole.data() + own, count, type, op);
  fourth.wait(), third.wait(), second.wait(), first.wait();  // in any order
  EXPECT_EQ(out.back(), 0xee);
  out.pop_back();
  EXPECT_EQ(out, reduced(type, op, c.ranks(), count));
  EXPECT_EQ(in_place, out);
  EXPECT_EQ(share.back(), 0xee);
  share.pop_back();
  EXPECT_EQ(share, slice(reduced(type, op, c.ranks(), count * n), own, count * size));
  EXPECT_EQ(slice(whole, own, count * size), share);
}

void check_movements(Communicator& c, DataType type, size_t count) {
  const auto n = static_cast<size_t>(c.ranks());
  const size_t size = size_of(type) * count;
  const auto mine = filled(type, c.rank(), count);
  std::vector<uint8_t> all(size * n + 1, 0xee);
  c.all_gather(mine.data(), all.data(), count, type).wait();
  const auto pieces = filled(type, c.rank(), count * n);
  std::vector<uint8_t> pieces_of_all(size * n + 1, 0xee);
  c.all_to_all(pieces.data(), pieces_of_all.data(), count, type).wait();
  for (size_t rank = 0; rank < n; ++rank) {
    EXPECT_EQ(slice(all, rank * size, size), filled(type, static_cast<int>(rank), count));
    EXPECT_EQ(slice(pieces_of_all, rank * size, size), slice(filled(type, static_cast<int>(rank), count * n),
                                                             static_cast<size_t>(c.rank()) * size, size));
  }
  EXPECT_EQ(all.back(), 0xee);
  EXPECT_EQ(pieces_of_all.back(), 0xee);
  for (int root = 0; root < c.ranks(); ++root) {
    auto data = root == c.rank() ? filled(type, root, count) : std::vector<uint8_t>(size);
    c.broadcast(data.data(), count, type, root).wait();
    EXPECT_EQ(data, filled(type, root, count));
  }
  const int next = (c.rank() + 1) % c.ranks(), previous = (c.rank() + c.ranks() - 1) % c.ranks();
  std::vector<uint8_t> received(size);
  auto receive = c.recv(received.data(), size, previous);
  auto send = c.send(mine.data(), size, next);
  send.wait(), receive.wait();
  EXPECT_EQ(received, filled(type, previous, count));
}

class RanksTest : public testing::TestWithParam<int> {};

TEST_P(RanksTest, EveryCollectiveOfEveryTypeAndSize) {
  CommunicatorOptions options{.plugin = any_plugin(), .chunk = 4096};
  run_ranks(GetParam(), options, [](Communicator& c) {
    for (DataType type : kDataTypes) {
      for (size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{1021}, size_t{20000}}) {
        for (ReduceOp op : kReduceOps) {
          if (op == ReduceOp::sum || count < 2000) check_reductions(c, type, op, count);
        }
        check_movements(c, type, count);
      }
    }
    c.barrier().wait();
  });
}

TEST_P(RanksTest, SeveralRingsWithoutAProgressThread) {
  CommunicatorOptions options{.plugin = any_plugin(), .chunk = 8192, .rings = 3, .progress_thread = false};
  run_ranks(GetParam(), options, [](Communicator& c) {
    for (size_t count : {size_t{1}, size_t{777}, size_t{50001}}) {
      check_reductions(c, DataType::f32, ReduceOp::sum, count);
      check_movements(c, DataType::bf16, count);
    }
  });
}

TEST_P(RanksTest, LargeMessages) {
  run_ranks(GetParam(), {.plugin = any_plugin()}, [](Communicator& c) {
    check_reductions(c, DataType::f32, ReduceOp::sum, 600'001);
    check_movements(c, DataType::u8, 1'000'001);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, RanksTest, testing::Values(1, 2, 3, 4));

class VersionTest : public testing::TestWithParam<int> {};

TEST_P(VersionTest, EveryVersionOfTheInterfaceCarriesCollectives) {
  run_ranks(3, {.plugin = toy(GetParam()), .chunk = 4096}, [](Communicator& c) {
    check_reductions(c, DataType::i32, ReduceOp::sum, 10001);
    check_movements(c, DataType::f64, 1001);
  });
}

INSTANTIATE_TEST_SUITE_P(Versions, VersionTest, testing::Values(8, 9, 10, 11, 12));

// Order, window and stale pointers are checked by the toy itself, which fails the call.
TEST(Communicator, NullRequestMeansTheSameCallAgain) {
  const Variable null("TOY_NULL", "3");
  run_ranks(3, {.plugin = toy(12), .chunk = 4096}, [](Communicator& c) {
    check_reductions(c, DataType::f32, ReduceOp::sum, 30000);
    check_movements(c, DataType::u8, 30000);
    EXPECT_GT(ToyCounters(12)->nulls, 0);
  });
}

TEST(Communicator, ManyOperationsMayBeOutstanding) {
  run_ranks(3, {.plugin = any_plugin(), .chunk = 4096}, [](Communicator& c) {
    constexpr size_t count = 3000, operations = 40;
    std::vector<std::vector<int32_t>> data(operations);
    std::vector<Work> works;
    for (size_t i = 0; i < operations; ++i) {
      data[i].assign(count, c.rank() + static_cast<int>(i));
      works.push_back(c.all_reduce(data[i].data(), data[i].data(), count, DataType::i32, ReduceOp::sum));
    }
    while (!works.back().done()) {
    }
    for (size_t i = 0; i < operations; ++i) {
      works[i].wait();
      EXPECT_EQ(data[i], std::vector<int32_t>(count, 3 + 3 * static_cast<int>(i)));
    }
  });
}

// Rank 1 gets its result only if rank 0 reduces and sends, which nobody there asks for.
TEST(Communicator, OperationsGoOnWhileNobodyWaits) {
  std::promise<void> arrived;
  auto at_rank_1 = arrived.get_future();
  run_ranks(2, {.plugin = any_plugin()}, [&](Communicator& c) {
    std::vector<float> data(1'000'000, 1.0F);
    auto work = c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum);
    if (c.rank() == 0) {
      EXPECT_EQ(at_rank_1.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    } else {
      work.wait();
      arrived.set_value();
    }
    work.wait();
    EXPECT_EQ(data.back(), 2.0F);
  });
}

TEST(Communicator, SameBitsEverywhereAndEveryTime) {
  std::vector<std::vector<float>> results(8);
  for (size_t run = 0; run < 2; ++run) {
    run_ranks(4, {.plugin = any_plugin()}, [&](Communicator& c) {
      std::mt19937 random(static_cast<unsigned>(c.rank()));
      std::normal_distribution<float> normal;
      std::vector<float> data(100'003);
      for (float& x : data) x = normal(random) * 1e3F;
      c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum).wait();
      results[run * 4 + static_cast<size_t>(c.rank())] = std::move(data);
    });
  }
  for (const auto& result : results) {
    ASSERT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
  }
}

TEST(Communicator, RanksMaySendToThemselvesInEitherOrder) {
  run_ranks(1, {.plugin = any_plugin()}, [](Communicator& c) {
    int a = 7, b = 0, d = 8, e = 0;
    auto send = c.send(&a, sizeof a, 0);
    EXPECT_FALSE(send.done());
    c.recv(&b, sizeof b, 0).wait();
    send.wait();
    auto receive = c.recv(&e, sizeof e, 0);
    c.send(&d, sizeof d, 0).wait();
    receive.wait();
    EXPECT_EQ(b, 7);
    EXPECT_EQ(e, 8);
  });
}

TEST(Communicator, BarrierHoldsEveryoneBack) {
  std::atomic<int> arrived = 0;
  run_ranks(4, {.plugin = any_plugin()}, [&](Communicator& c) {
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      c.barrier().wait();
      EXPECT_GE(arrived.load(), 4 * round);
      c.barrier().wait();
    }
  });
}

TEST(Communicator, KeptMemoryIsRegisteredOncePerConnection) {
  run_ranks(2, {.plugin = toy(12), .progress_thread = false}, [&](Communicator& c) {
    std::vector<float> data(10000, 1.0F);
    c.keep_registered(data.data(), data.size() * sizeof(float));
    c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum).wait();
    c.all_reduce(data.data() + 10, data.data() + 10, 100, DataType::f32, ReduceOp::sum).wait();
    c.barrier().wait();
    const int regions = ToyCounters(12)->regions;
    EXPECT_LE(regions,
              2 * (2 + 2) + 2);  // scratch and data, each way; a barrier of the other may still be under way
    c.barrier().wait();
    c.drop_registered(data.data());
    EXPECT_THROW(c.drop_registered(data.data()), std::invalid_argument);
    EXPECT_EQ(data[10], 4.0F);
  });
}

TEST(Communicator, NothingStaysBehind) {
  const auto kept = open_net(toy(11));
  const ToyCounters counters(11);
  run_ranks(3, {.plugin = toy(11)}, [&](Communicator& c) {
    check_reductions(c, DataType::u8, ReduceOp::max, 5000);
    EXPECT_EQ(counters->contexts, 3);
    c.barrier().wait();
  });
  EXPECT_EQ(counters->comms, 0);
  EXPECT_EQ(counters->listeners, 0);
  EXPECT_EQ(counters->regions, 0);
  EXPECT_EQ(counters->contexts, 0);
}

TEST(Communicator, WrongArgumentsAreRefusedAndHarmNothing) {
  run_ranks(2, {.plugin = any_plugin()}, [](Communicator& c) {
    int x = 1;
    EXPECT_THROW(c.send(&x, sizeof x, 2), std::invalid_argument);
    EXPECT_THROW(c.recv(&x, sizeof x, -1), std::invalid_argument);
    EXPECT_THROW(c.broadcast(&x, 1, DataType::i32, 5), std::invalid_argument);
    EXPECT_THROW(c.all_reduce(nullptr, &x, 1, DataType::i32, ReduceOp::sum), std::invalid_argument);
    EXPECT_THROW(c.all_to_all(&x, &x, 1, DataType::i32), std::invalid_argument);
    EXPECT_THROW(c.all_gather(&x, &x, SIZE_MAX / 2, DataType::f64), std::invalid_argument);
    c.all_reduce(&x, &x, 1, DataType::i32, ReduceOp::sum).wait();
    EXPECT_EQ(x, 2);
  });
}

TEST(Communicator, OptionsAreChecked) {
  auto error = [](const CommunicatorOptions& options) {
    try {
      Communicator::create(options);
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error({.rank = 2, .ranks = 2}), HasSubstr("rank 2 does not exist among 2"));
  EXPECT_THAT(error({.ranks = 0}), HasSubstr("1 to 1024 ranks"));
  EXPECT_THAT(error({.ranks = 2}), HasSubstr("MEGASCALE_RENDEZVOUS"));
  EXPECT_THAT(error({.rings = 99}), HasSubstr("1 to 32 rings"));
  EXPECT_THAT(error({.chunk = 17}), HasSubstr("4 KiB"));
  EXPECT_THAT(error({.plugin = toy(12), .device = 9}), HasSubstr("has no device 9"));
  EXPECT_THAT(error({.plugin = "nowhere"}), HasSubstr("`nowhere'"));
}

TEST(Communicator, LaunchContractIsRead) {
  const Variable rank("MEGASCALE_RANK", "3"), ranks("MEGASCALE_RANKS", "4"),
      local("MEGASCALE_LOCAL_RANK", "1");
  EXPECT_THROW(options_from_environment(), std::runtime_error);
  const Variable rendezvous("MEGASCALE_RENDEZVOUS", "host:1234");
  const CommunicatorOptions options = options_from_environment();
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.local_rank, 1);
  EXPECT_EQ(options.rendezvous, "host:1234");
}

}  // namespace
}  // namespace megascale::host
