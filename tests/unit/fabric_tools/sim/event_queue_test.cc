#include "fabric_tools/sim/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "fabric_tools/random.h"

namespace megascale::sim {
namespace {

std::vector<uint32_t> drain(EventQueue& queue) {
  std::vector<uint32_t> order;
  for (Event e; queue.pop(e);) order.push_back(e.index());
  return order;
}

TEST(EventQueue, EventsOfOneTickComeInTheOrderTheyWentIn) {
  EventQueue queue(1024, 64);
  for (uint32_t i = 0; i < 200; ++i) queue.push(5'000, EventKind::kTick, i);
  queue.push(4'999, EventKind::kTick, 200);
  const auto order = drain(queue);
  ASSERT_EQ(order.size(), 201u);
  EXPECT_EQ(order[0], 200u);
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(order[i + 1], i);
}

// One that went in when its time was far comes before one that went in when it was near.
TEST(EventQueue, TheFarFutureKeepsItsPlaceAmongTheNear) {
  EventQueue queue(16, 64);  // sees 1024 ticks ahead
  queue.push(5'000, EventKind::kTick, 0);
  queue.push(4'500, EventKind::kTick, 1);
  Event e;
  ASSERT_TRUE(queue.pop(e));
  EXPECT_EQ(e.index(), 1u);
  queue.push(5'000, EventKind::kTick, 2);
  EXPECT_EQ(drain(queue), (std::vector<uint32_t>{0, 2}));
}

TEST(EventQueue, WhatIsPushedForThePastHappensNow) {
  EventQueue queue;
  queue.push(10'000, EventKind::kTick, 0);
  Event e;
  ASSERT_TRUE(queue.pop(e));
  queue.push(3, EventKind::kTick, 1);
  ASSERT_TRUE(queue.pop(e));
  EXPECT_EQ(e.at, 10'000);
  EXPECT_FALSE(queue.pop(e));
}

TEST(EventQueue, KindAndIndexComeBack) {
  EventQueue queue;
  queue.push(1, EventKind::kDeadlock, (1u << Event::kIndexBits) - 1);
  Event e;
  ASSERT_TRUE(queue.pop(e));
  EXPECT_EQ(e.kind(), EventKind::kDeadlock);
  EXPECT_EQ(e.index(), (1u << Event::kIndexBits) - 1);
}

TEST(EventQueue, TheTimeStopsAtTheEnd) {
  EventQueue queue(16, 64);
  queue.push(100, EventKind::kTick, 0);
  queue.push(1'000'000, EventKind::kTick, 1);
  Event e;
  ASSERT_TRUE(queue.pop(e, 100));
  EXPECT_FALSE(queue.pop(e, 5'000));
  EXPECT_EQ(queue.now(), 5'000);
  ASSERT_TRUE(queue.pop(e, 1'000'000));
  EXPECT_EQ(e.index(), 1u);
  EXPECT_FALSE(queue.pop(e, 2'000'000));
  EXPECT_EQ(queue.now(), 1'000'000) << "nothing is left: nothing happens any more";
}

TEST(EventQueue, AnIndexThatNoEventCanHoldIsNotGivenOut) {
  EXPECT_EQ(new_index((1u << Event::kIndexBits) - 1), (1u << Event::kIndexBits) - 1);
  EXPECT_THROW(new_index(1u << Event::kIndexBits), std::runtime_error);
}

// Against a sort: near and far, dense and sparse, pushes between pops.
TEST(EventQueue, IsAStableSortWhateverTheWidth) {
  for (const Tick width : {1, 64, 1000, 1 << 20}) {
    Random random(7);
    EventQueue queue(width, 128);
    std::vector<std::pair<Tick, uint32_t>> expected;
    std::vector<std::pair<Tick, uint32_t>> got;
    uint32_t next = 0;
    const auto push = [&] {
      const Tick ahead = random.below(4) == 0 ? random.below(3'000'000) : random.below(500);
      expected.emplace_back(queue.now() + ahead, next);
      queue.push(queue.now() + ahead, EventKind::kTick, next++);
    };
    for (int i = 0; i < 100; ++i) push();
    for (Event e; queue.pop(e);) {
      got.emplace_back(e.at, e.index());
      if (next < 20'000) push();
      if (next < 20'000 && random.below(3) == 0) push();
    }
    std::stable_sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.first < b.first; });
    EXPECT_EQ(got, expected) << "width " << width;
  }
}

}  // namespace
}  // namespace megascale::sim
