#include "cc/timely.h"

#include <gtest/gtest.h>

namespace megascale::timely_test {
namespace {

// A port of 10 Gb/s, so that steps are those of the paper: 10 Mb/s.
std::unique_ptr<Controller> build(Parameters p = {}) {
  p.emplace("segment", 1000);
  std::vector<std::string> complaints;
  auto c = build_controller("timely", p, {.line_rate = Rate::gigabits(10), .packet = 1000, .base_rtt = 10us},
                            &complaints);
  EXPECT_TRUE(complaints.empty());
  return c;
}

void ack(Controller& c, Duration rtt) { c.ack({.now = Time(1s), .bytes = 1000, .rtt = rtt}); }
double mega(const Controller& c) { return c.rate().bits_per_second / 1e6; }

TEST(Timely, ThePapersSequence) {
  const auto c = build();
  ack(*c, 600us);  // above T_high: 1 - 0.8 x (1 - 500/600) = 0.866667
  EXPECT_NEAR(mega(*c), 8666.6667, 1e-3);
  ack(*c, 40us);  // below T_low: + 10
  EXPECT_NEAR(mega(*c), 8676.6667, 1e-3);
  // The smoothed difference is 0.875 x (40 - 600) = -490 us. Then 0.875 x (100 - 40) + 0.125 x (-490) = -8.75
  // us: the gradient is negative: + 10.
  ack(*c, 100us);
  EXPECT_NEAR(mega(*c), 8686.6667, 1e-3);
  // 0.875 x (104 - 100) + 0.125 x (-8.75) = 2.40625 us; / 20 us = 0.1203125; 1 - 0.8 x that = 0.90375.
  ack(*c, 104us);
  EXPECT_NEAR(mega(*c), 7850.575, 1e-3);
}

TEST(Timely, AfterFiveFallingStepsTheyAreFiveTimesAsLarge) {
  const auto c = build();
  ack(*c, 600us);
  const double start = mega(*c);
  for (int i = 0; i < 4; ++i) ack(*c, Duration(400us) - i * Duration(10us));
  EXPECT_NEAR(mega(*c), start + 40, 1e-3);
  ack(*c, 300us);  // the fifth
  EXPECT_NEAR(mega(*c), start + 90, 1e-3);
}

TEST(Timely, PatchedWeighsTheGradientAgainstTheRtt) {
  const auto c = build({{"patched", 1}, {"decrease", 0.008}});
  ack(*c, 100us);  // no difference yet: weight 0.5, error (100 - 50) / 50 = 1
  // 10 x 0.5 + 10,000 x (1 - 0.008 x 0.5 x 1) = 9965.
  EXPECT_NEAR(mega(*c), 9965, 1e-3);
  ack(*c, 102us);
  // Difference 0.875 x 2 = 1.75 us, gradient 0.0875, weight 0.675, error 1.04:
  // 10 x 0.325 + 9965 x (1 - 0.008 x 0.675 x 1.04) = 3.25 + 9965 x 0.994384 = 9912.28656.
  EXPECT_NEAR(mega(*c), 9912.28656, 1e-3);
  ack(*c, 60us);  // gradient under -1/4: weight 0: + 10
  EXPECT_NEAR(mega(*c), 9922.28656, 1e-3);
}

TEST(Timely, ThinksOnceForASegment) {
  const auto c = build({{"segment", 16000}});
  for (int i = 0; i < 15; ++i) ack(*c, 600us);
  EXPECT_EQ(mega(*c), 10'000);
  ack(*c, 600us);
  EXPECT_LT(mega(*c), 10'000);
}

TEST(Timely, StepsGrowWithThePort) {
  const auto c = build_controller("timely", {{"segment", 64}}, {.line_rate = Rate::gigabits(100)}, nullptr);
  ack(*c, 600us);
  const double before = mega(*c);
  ack(*c, 40us);
  EXPECT_NEAR(mega(*c), before + 100, 1e-3);
}

}  // namespace
}  // namespace megascale::timely_test
