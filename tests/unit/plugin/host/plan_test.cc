#include "plugin/host/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

// All ranks' plans are carried out together on a pretended network that keeps messages in order and nothing
// else, with the limits of the real one (in flight, scratch slots), in random order. What comes out is
// compared with arithmetic.
namespace megascale::host {
namespace {

constexpr size_t kWindow = 8;
constexpr size_t kSlots = 16;
using Bytes8 = std::vector<uint8_t>;

struct Player {
  Plan plan;
  Bytes8 input, output;
  bool in_place = false;
  size_t sends_posted = 0, sends_done = 0, receives_posted = 0, receives_done = 0;
  std::deque<Bytes8> held;
  size_t slots_used = 0;
  std::deque<std::pair<const uint8_t*, Bytes8>> wire;  // to the next: where it was sent from, and what it was

  uint8_t* in() { return in_place ? output.data() : input.data(); }
  bool complete() const { return sends_done == plan.sends.size() && receives_done == plan.receives.size(); }
};

class Stage {
 public:
  explicit Stage(std::vector<Player> players, unsigned seed) : players_(std::move(players)), random_(seed) {}

  // False when everybody is stuck.
  bool run() {
    int stuck = 0;
    while (!std::all_of(players_.begin(), players_.end(), [](const Player& p) { return p.complete(); })) {
      const size_t who = random_() % players_.size();
      const bool moved = random_() % 2 ? send(players_[who]) : receive(who);
      stuck = moved ? 0 : stuck + 1;
      if (stuck > 20000) return false;
    }
    return true;
  }
  std::vector<Player>& players() { return players_; }

 private:
  bool send(Player& p) {
    if (p.sends_posted == p.plan.sends.size() || p.sends_posted - p.sends_done >= kWindow) return false;
    const SendStep& step = p.plan.sends[p.sends_posted];
    if (p.receives_done < step.after_receives) return false;
    if (step.from == SendStep::From::slot) {
      EXPECT_FALSE(p.held.empty());
      EXPECT_EQ(p.held.front().size(), step.bytes);
      p.wire.emplace_back(nullptr, p.held.front());
      p.held.pop_front();
    } else {
      const uint8_t* data = (step.from == SendStep::From::input ? p.in() : p.output.data()) + step.offset;
      p.wire.emplace_back(data, Bytes8(data, data + step.bytes));
    }
    ++p.sends_posted;
    return true;
  }

  bool receive(size_t who) {
    Player& p = players_[who];
    Player& previous = players_[(who + players_.size() - 1) % players_.size()];
    // Post as far as may be posted, in order.
    while (p.receives_posted < p.plan.receives.size() && p.receives_posted - p.receives_done < kWindow) {
      const ReceiveStep& next = p.plan.receives[p.receives_posted];
      if (p.sends_done < next.after_sends) break;
      if (next.then != ReceiveStep::Then::place) {
        if (p.slots_used == kSlots) break;
        ++p.slots_used;
      }
      ++p.receives_posted;
    }
    if (p.receives_done == p.receives_posted || previous.wire.empty()) return false;
    const ReceiveStep& step = p.plan.receives[p.receives_done];
    auto [source, bytes] = previous.wire.front();
    // The sender's buffer must not have changed before its send is done: that is what after_sends is for.
    if (source != nullptr) {
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), source));
    }
    previous.wire.pop_front();
    const bool was_slot = previous.plan.sends[previous.sends_done].from == SendStep::From::slot;
    if (was_slot) --previous.slots_used;
    ++previous.sends_done;
    EXPECT_EQ(bytes.size(), step.bytes);
    if (step.then != ReceiveStep::Then::place) {
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(bytes[i] + p.in()[step.operand + i]);
      }
    }
    if (step.then == ReceiveStep::Then::reduce_ahead) {
      p.held.push_back(bytes);
    } else {
      if (step.then == ReceiveStep::Then::reduce) --p.slots_used;
      std::copy(bytes.begin(), bytes.end(), p.output.begin() + static_cast<long>(step.offset));
    }
    ++p.receives_done;
    return true;
  }

  std::vector<Player> players_;
  std::mt19937 random_;
};

uint8_t value(int rank, size_t index) {
  return static_cast<uint8_t>(rank * 37 + static_cast<int>(index * 7 % 251));
}

Bytes8 filled(int rank, size_t bytes) {
  Bytes8 data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = value(rank, i);
  return data;
}

struct Shape {
  int ranks;
  size_t bytes;
  uint32_t chunk;
};

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  for (int ranks : {2, 3, 4, 7}) {
    for (size_t bytes : {size_t{1}, size_t{127}, size_t{128}, size_t{1000}, size_t{65536}, size_t{300001}}) {
      for (uint32_t chunk : {4096U, 16384U}) result.push_back({ranks, bytes, chunk});
    }
  }
  return result;
}

TEST(Plan, AllReduceAddsEveryRanksBytes) {
  for (const bool in_place : {false, true}) {
    for (const Shape& shape : shapes()) {
      std::vector<Player> players;
      for (int rank = 0; rank < shape.ranks; ++rank) {
        Player p;
        p.plan = plan_all_reduce({rank, shape.ranks, shape.chunk}, {0, shape.bytes});
        p.in_place = in_place;
        p.input = filled(rank, shape.bytes);
        p.output = in_place ? p.input : Bytes8(shape.bytes);
        players.push_back(std::move(p));
      }
      Bytes8 expected(shape.bytes);
      for (int rank = 0; rank < shape.ranks; ++rank) {
        for (size_t i = 0; i < shape.bytes; ++i)
          expected[i] = static_cast<uint8_t>(expected[i] + value(rank, i));
      }
      Stage stage(std::move(players), static_cast<unsigned>(shape.bytes));
      ASSERT_TRUE(stage.run()) << "stuck: " << shape.ranks << " ranks, " << shape.bytes << " bytes";
      for (const Player& p : stage.players())
        ASSERT_EQ(p.output, expected) << shape.ranks << " " << shape.bytes;
    }
  }
}

TEST(Plan, ReduceScatterGivesEachRankItsShare) {
  for (const Shape& shape : shapes()) {
    const auto n = static_cast<size_t>(shape.ranks);
    std::vector<Player> players;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      Player p;
      p.plan = plan_reduce_scatter({rank, shape.ranks, shape.chunk}, {0, shape.bytes}, shape.bytes);
      p.input = filled(rank, shape.bytes * n);
      p.output.resize(shape.bytes);
      players.push_back(std::move(p));
    }
    Stage stage(std::move(players), 3);
    ASSERT_TRUE(stage.run()) << "stuck: " << shape.ranks << " ranks, " << shape.bytes << " bytes";
    for (size_t rank = 0; rank < n; ++rank) {
      for (size_t i = 0; i < shape.bytes; ++i) {
        uint8_t sum = 0;
        for (int from = 0; from < shape.ranks; ++from) {
          sum = static_cast<uint8_t>(sum + value(from, rank * shape.bytes + i));
        }
        ASSERT_EQ(stage.players()[rank].output[i], sum);
      }
    }
  }
}

TEST(Plan, AllGatherPutsEveryShareInItsPlace) {
  for (const Shape& shape : shapes()) {
    const auto n = static_cast<size_t>(shape.ranks);
    std::vector<Player> players;
    Bytes8 expected;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      Player p;
      p.plan = plan_all_gather({rank, shape.ranks, shape.chunk}, {0, shape.bytes}, shape.bytes);
      p.input = filled(rank, shape.bytes);
      p.output.resize(shape.bytes * n);
      std::copy(p.input.begin(), p.input.end(), p.output.begin() + static_cast<long>(shape.bytes) * rank);
      expected.insert(expected.end(), p.input.begin(), p.input.end());
      players.push_back(std::move(p));
    }
    Stage stage(std::move(players), 4);
    ASSERT_TRUE(stage.run());
    for (const Player& p : stage.players()) ASSERT_EQ(p.output, expected);
  }
}

TEST(Plan, BroadcastReachesAllFromAnyRoot) {
  for (const Shape& shape : shapes()) {
    const int root = static_cast<int>(shape.bytes) % shape.ranks;
    std::vector<Player> players;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      Player p;
      p.plan = plan_broadcast({rank, shape.ranks, shape.chunk}, {0, shape.bytes}, root);
      p.output = rank == root ? filled(root, shape.bytes) : Bytes8(shape.bytes);
      players.push_back(std::move(p));
    }
    Stage stage(std::move(players), 5);
    ASSERT_TRUE(stage.run());
    for (const Player& p : stage.players()) ASSERT_EQ(p.output, filled(root, shape.bytes));
  }
}

TEST(Plan, PartsOfSeveralRingsCoverEverythingOnce) {
  for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{129}, uint64_t{100000}}) {
    for (int parts : {1, 2, 3, 8}) {
      uint64_t at = 0;
      for (int part = 0; part < parts; ++part) {
        const Part range = part_of(bytes, part, parts);
        EXPECT_EQ(range.begin, at);
        EXPECT_TRUE(range.begin % kAlignment == 0 || range.begin == bytes);
        at = range.end;
      }
      EXPECT_EQ(at, bytes);
    }
  }
}

TEST(Plan, EmptyMessageIsOneMessage) {
  EXPECT_EQ(plan_send(0, 4096).sends.size(), 1U);
  EXPECT_EQ(plan_receive(0, 4096).receives.size(), 1U);
  EXPECT_EQ(plan_send(4097, 4096).sends.size(), 2U);
  EXPECT_TRUE(plan_all_reduce({0, 4, 4096}, {0, 0}).sends.empty());
}

TEST(Plan, ChunksOfABlockKeepEveryCutAtALine) {
  const Plan plan = plan_all_reduce({1, 4, 256 << 10}, {0, 50'000'001});
  for (const SendStep& step : plan.sends) {
    EXPECT_EQ(step.offset % kAlignment, 0U);
    EXPECT_LE(step.bytes, 256U << 10);
  }
}

}  // namespace
}  // namespace megascale::host
