#include "cc/hybrid.h"

#include <gtest/gtest.h>

namespace megascale {
namespace {

// 100 Gb/s, 12 us, packets of 1000 bytes: the product of rate and base RTT is 150 packets.
constexpr PathFacts kPath{.line_rate = Rate::gigabits(100), .packet = 1000, .base_rtt = 12us};

// The target is 12 + 6 = 18 us, the guard 16 us above; the window begins with 100 packets.
std::unique_ptr<Controller> build(Parameters p = {}) {
  p.emplace("scaling_range", 0);
  p.emplace("queue_target", 6e-6);
  p.emplace("guard", 16e-6);
  p.emplace("initial_window", 100.0 / 150);
  p.emplace("slow_start", 0);
  p.emplace("adapt_delay", 0);
  std::vector<std::string> complaints;
  auto c = build_controller("hybrid", p, kPath, &complaints);
  EXPECT_TRUE(complaints.empty());
  return c;
}

Ack ack(Duration now, Duration rtt, bool marked = false, Bytes bytes = 1000) {
  return {.now = Time(now), .sequence = 1, .bytes = bytes, .rtt = rtt, .ecn_marked = marked};
}

TEST(Hybrid, TheFiveCasesOfMarkAndDelay) {
  const auto c = build();
  c->ack(ack(100us, 12us));  // neither: + 1 / 100
  EXPECT_EQ(c->window(), 100'010u);
  c->ack(ack(101us, 17us, true));  // a mark without delay: hold
  EXPECT_EQ(c->window(), 100'010u);
  // Both: 1 - 0.8 x (36 - 18) / 36 = 0.6.
  c->ack(ack(102us, 36us, true));
  EXPECT_EQ(c->window(), 60'006u);

  const auto unmarked = build();
  unmarked->ack(ack(100us, 33us));  // delay without a mark, inside the guard: + 0.25 / 100
  EXPECT_EQ(unmarked->window(), 100'002u);
  // More than a switch leaves unmarked. The least of the round is still 33 us, so nothing changes yet ...
  unmarked->ack(ack(101us, 60us));
  EXPECT_GT(unmarked->window(), 100'002u);
  // ... but a connection that never saw less decreases: 1 - 0.8 x 42 / 60 = 0.44, at most half.
  const auto slow = build();
  slow->ack(ack(100us, 60us));
  EXPECT_EQ(slow->window(), 50'000u);
}

TEST(Hybrid, EachRuleCanBeSwitchedOff) {
  const auto no_marks = build({{"marks", 0}});
  no_marks->ack(ack(100us, 17us, true));
  EXPECT_EQ(no_marks->window(), 100'010u) << "delay alone decides";
  const auto no_hold = build({{"hold", 0}});
  no_hold->ack(ack(100us, 17us, true));
  EXPECT_EQ(no_hold->window(), 100'010u);
  const auto no_filter = build({{"filter", 0}});
  no_filter->ack(ack(100us, 12us));
  no_filter->ack(ack(101us, 60us));
  EXPECT_EQ(no_filter->window(), 50'005u) << "the last RTT, not the least";
}

TEST(Hybrid, ADecreaseHappensOnceInAnRtt) {
  const auto c = build();
  c->ack(ack(100us, 36us, true));
  EXPECT_EQ(c->window(), 60'000u);
  c->ack(ack(135us, 36us, true));
  EXPECT_EQ(c->window(), 60'000u);
  c->ack(ack(136us, 36us, true));
  EXPECT_EQ(c->window(), 36'000u);
}

TEST(Hybrid, ANotificationIsAMarkWithTheLastDelay) {
  const auto c = build();
  c->ack(ack(100us, 30us));  // inside the guard
  const double before = static_cast<double>(c->window());
  c->cnp(Time(110us));  // 1 - 0.8 x 12 / 30 = 0.68
  EXPECT_NEAR(static_cast<double>(c->window()), before * 0.68, 2);
  c->cnp(Time(111us));  // the same RTT
  EXPECT_NEAR(static_cast<double>(c->window()), before * 0.68, 2);
}

TEST(Hybrid, WithoutAFreshRttEachNotificationTakesALittle) {
  const auto c = build();
  c->cnp(Time(100us));
  EXPECT_EQ(c->window(), 98'000u);
  c->cnp(Time(101us));
  EXPECT_NEAR(static_cast<double>(c->window()), 96'040, 1);
}

TEST(Hybrid, StartsByDoublingUntilTheFirstSignOfAQueue) {
  const auto c = build({{"slow_start", 1}, {"initial_window", 0.25}});
  EXPECT_EQ(c->window(), 37'500u);
  c->ack(ack(100us, 12us, false, 37'500));
  EXPECT_EQ(c->window(), 75'000u);
  c->ack(ack(112us, 36us, true, 1000));
  EXPECT_EQ(c->window(), 45'000u);
  c->ack(ack(160us, 12us, false, 1000));
  EXPECT_EQ(c->window(), 45'022u);  // + 1 / 45
}

}  // namespace
}  // namespace megascale
