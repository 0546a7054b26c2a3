#include "cc/path.h"

#include <gtest/gtest.h>

namespace megascale {
namespace {

TEST(Path, WhatIsNotKnownIsAssumedOrLearned) {
  Path path{PathFacts{}};
  EXPECT_EQ(path.bits_per_second(), 100e9);
  EXPECT_TRUE(path.line_rate().is_unlimited()) << "a guess holds nobody back";
  EXPECT_EQ(path.base_rtt(), 10'000);
  path.measured(0ns);
  EXPECT_EQ(path.base_rtt(), 10'000);
  path.measured(30us);
  EXPECT_EQ(path.base_rtt(), 30'000) << "the first sample replaces the guess";
  path.measured(40us);
  EXPECT_EQ(path.base_rtt(), 30'000);
  path.measured(20us);
  EXPECT_EQ(path.base_rtt(), 20'000);
}

TEST(Path, WhatIsKnownIsBelieved) {
  Path path{{.line_rate = Rate::gigabits(200), .packet = 1024, .base_rtt = 8us}};
  EXPECT_EQ(path.line_rate(), Rate::gigabits(200));
  EXPECT_EQ(path.bdp(), 200'000);
  path.measured(1us);
  EXPECT_EQ(path.base_rtt(), 8'000);
  EXPECT_EQ(path.bytes(2.5), 2560u);
  EXPECT_EQ(path.bytes(0), 1u) << "a window of nothing would never open";
}

}  // namespace
}  // namespace megascale
