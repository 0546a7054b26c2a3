#include "cc/hybrid.h"

#include <gtest/gtest.h>

namespace megascale::hybrid_test {
namespace {

// 100 Gb/s, 12 us, packets of 1000 bytes: the product of rate and base RTT is 150 packets.
constexpr PathFacts kPath{.line_rate = Rate::gigabits(100), .packet = 1000, .base_rtt = 12us};

// The target is 12 + 6 = 18 us, the guard 16 us above; the window begins with 100 packets, all of them in
// use.
std::unique_ptr<Controller> build(Parameters p = {}) {
  p.emplace("scaling_range", 0);
  p.emplace("queue_target", 6e-6);
  p.emplace("guard", 16e-6);
  p.emplace("initial_window", 100);
  p.emplace("fair_increase", 0.25);
  p.emplace("slow_start", 0);
  p.emplace("far_off", 0);
  p.emplace("share", 0);
  p.emplace("filter", 0);
  p.emplace("rtt_fairness", 0);
  std::vector<std::string> complaints;
  auto c = build_controller("hybrid", p, kPath, &complaints);
  EXPECT_TRUE(complaints.empty());
  c->sent(Time(0us), 100'000, 100'000);
  return c;
}

Ack ack(Duration now, Duration rtt, bool marked = false, uint64_t sequence = 1, Bytes bytes = 1000) {
  return {.now = Time(now), .sequence = sequence, .bytes = bytes, .rtt = rtt, .ecn_marked = marked};
}

TEST(Hybrid, TheFiveCasesOfMarkAndDelay) {
  const auto c = build();
  c->ack(ack(100us, 12us));  // neither: + 1 / 100
  EXPECT_EQ(c->window(), 100'010u);
  c->ack(ack(101us, 17us, true));  // a mark without delay is another path's: + 1 / 100.01
  EXPECT_EQ(c->window(), 100'019u);
  // Both: 1 - 0.8 x (36 - 18) / 36 = 0.6 of the 100 packets in use.
  c->ack(ack(102us, 36us, true));
  EXPECT_EQ(c->window(), 60'000u);

  const auto unmarked = build({{"filter", 1}});
  unmarked->ack(ack(100us, 33us));  // delay without a mark, inside the guard: + 0.25 / 100
  EXPECT_EQ(unmarked->window(), 100'002u);
  // More than a switch leaves unmarked, but the least of two rounds is still 33 us ...
  unmarked->ack(ack(101us, 60us));
  EXPECT_GT(unmarked->window(), 100'002u);
  // ... while a connection that never saw less decreases: 1 - 0.8 x 42 / 60 = 0.44, at most half.
  const auto slow = build({{"filter", 1}});
  slow->ack(ack(100us, 60us));
  EXPECT_EQ(slow->window(), 50'000u);
}

TEST(Hybrid, EachRuleCanBeSwitchedOff) {
  const auto no_marks = build({{"marks", 0}});
  no_marks->ack(ack(100us, 17us, true));
  EXPECT_EQ(no_marks->window(), 100'010u) << "delay alone decides";
  const auto no_filter = build({{"filter", 0}});
  no_filter->ack(ack(100us, 12us));
  no_filter->ack(ack(101us, 60us));
  EXPECT_EQ(no_filter->window(), 50'000u) << "the last RTT, not the least";
}

TEST(Hybrid, OfOneWindowTheStrongestSignCountsAndNotAllTogether) {
  const auto c = build();
  c->ack(ack(100us, 36us, true));
  EXPECT_EQ(c->window(), 60'000u);
  c->ack(ack(135us, 36us, true, 50'000));
  EXPECT_EQ(c->window(), 60'000u) << "what was in flight then is not all acknowledged";
  c->ack(ack(136us, 40us, true, 60'000));  // 1 - 0.8 x 22 / 40 = 0.56, of the same 100
  EXPECT_EQ(c->window(), 56'000u);
  c->ack(ack(140us, 12us, false, 99'000));
  EXPECT_EQ(c->window(), 56'000u) << "nor does it grow meanwhile";
  c->sent(Time(150us), 1000, 1000);
  c->ack(ack(162us, 12us, false, 100'000));
  EXPECT_EQ(c->window(), 56'017u);  // + 1 / 56
}

TEST(Hybrid, FarAboveTheTargetTheWindowIsScaledToItAtOnce) {
  // Far off is 12 + 4 x 6 = 36 us: 18 / 90 of 100 packets.
  const auto c = build({{"far_off", 4}});
  c->ack(ack(100us, 90us, true));
  EXPECT_NEAR(static_cast<double>(c->window()), 20'000, 1);
  // Under far off no decrease goes below one packet; above it one may.
  const auto careful = build({{"far_off", 0}}), far = build({{"far_off", 4}});
  for (Controller* one : {careful.get(), far.get()}) {
    for (uint64_t i = 0; i < 20; ++i) {
      one->sent(Time(Duration(100us) + i * Duration(400us)), 1000, 1000);
      one->ack(ack(Duration(200us) + i * Duration(400us), 100us, true, 100'000 + i * 1000));
    }
  }
  EXPECT_EQ(careful->window(), 1000u);
  EXPECT_EQ(far->window(), 500u);  // least_window
  // One packet each 18 us / 0.5.
  EXPECT_NEAR(far->rate().bits_per_second, 8000 / 36e-6, 1);
}

TEST(Hybrid, ADecreaseBeginsWithWhatOfTheWindowIsUsed) {
  const auto c = build();
  c->sent(Time(1us), 1000, 10'000);
  c->ack(ack(100us, 12us, false, 100'000));  // ends the round of 100 packets; ten are in flight
  for (uint64_t i = 1; i <= 3; ++i) {
    c->sent(Time(100us + i * Duration(20us)), 1000, 10'000);
    c->ack(ack(110us + i * Duration(20us), 12us, false, 100'000 + i * 10'000));
  }
  ASSERT_GT(c->window(), 100'000u);
  c->ack(ack(200us, 36us, true, 131'000));  // 0.6 of 10 packets
  EXPECT_EQ(c->window(), 6'000u);
}

TEST(Hybrid, AFewMarksDecreaseLittle) {
  const auto c = build({{"share", 1}});
  c->ack(ack(100us, 33us, false, 3'000, 3'000));
  const double before = static_cast<double>(c->window());
  // One packet of four is marked: a quarter of what 1 - 0.8 x 18 / 36 = 0.6 takes, of the 100 in use.
  c->ack(ack(101us, 36us, true, 4'000));
  EXPECT_GT(before, 100'000);
  EXPECT_EQ(c->window(), 90'000u);
  // Three of six: half of it, of the same 100.
  c->ack(ack(102us, 36us, true, 5'000));
  c->ack(ack(103us, 36us, true, 6'000));
  EXPECT_EQ(c->window(), 80'000u);
}

TEST(Hybrid, MarkedDelayCountsByTheLeastOfTheRound) {
  const auto c = build({{"filter", 1}});
  c->sent(Time(1us), 100'000, 200'000);
  c->ack(ack(100us, 17us, false, 1'000));
  c->ack(ack(101us, 20us, true, 2'000));  // a new round's first: 1 - 0.8 x 2 / 20 = 0.92 of 200 in use
  const Bytes window = c->window();
  c->ack(ack(102us, 60us, true, 3'000));
  EXPECT_EQ(c->window(), window) << "a late acknowledgement tells of no longer queue";
}

TEST(Hybrid, ANotificationIsAMarkOnTheNextAcknowledgement) {
  const auto c = build();
  c->ack(ack(100us, 30us));
  c->cnp(Time(110us));
  c->cnp(Time(111us));
  EXPECT_GT(c->window(), 100'000u);
  c->ack(ack(112us, 30us));  // 1 - 0.8 x 12 / 30 = 0.68 of 100
  EXPECT_EQ(c->window(), 68'000u);
}

TEST(Hybrid, TheIncreaseGrowsWithTheBaseRtt) {
  // 48 us is four times the reference of 12 us: with a power of 0.5 twice the increase.
  const PathFacts far{.line_rate = Rate::gigabits(100), .packet = 1000, .base_rtt = 48us};
  const auto c = build_controller(
      "hybrid", {{"rtt_fairness", 0.5}, {"slow_start", 0}, {"initial_window", 100}}, far, nullptr);
  c->ack(ack(100us, 48us));
  EXPECT_EQ(c->window(), 100'020u);
}

TEST(Hybrid, WithoutAFreshRttEachNotificationTakesALittle) {
  const auto c = build();
  c->cnp(Time(100us));
  EXPECT_EQ(c->window(), 98'000u);
  c->cnp(Time(101us));
  EXPECT_NEAR(static_cast<double>(c->window()), 96'040, 1);
}

TEST(Hybrid, WhereOneAcknowledgementCoversManyPacketsTheWindowWaitsForNoneThatCannotCome) {
  const auto c = build({{"far_off", 4}});
  c->ack(ack(100us, 180us, true, 16'000,
             16'000));  // 18 / 180 of 100 packets: 10, but 16 make an acknowledgement
  EXPECT_EQ(c->window(), 32'000u);
  EXPECT_NEAR(c->rate().bits_per_second, 10 * 8000 / 18e-6, 1e3);  // 10 packets each 18 us
}

TEST(Hybrid, StartsByDoublingUntilTheFirstSignOfAQueue) {
  const auto c = build({{"slow_start", 1}, {"initial_window", 50}});
  EXPECT_EQ(c->window(), 50'000u);
  for (uint64_t i = 1; i <= 50; ++i) c->ack(ack(100us, 12us, false, i * 1000));
  EXPECT_EQ(c->window(), 100'000u);
  c->ack(ack(112us, 36us, true, 51'000));  // 0.6
  EXPECT_EQ(c->window(), 60'000u);
  c->ack(ack(160us, 12us, false, 150'000));
  EXPECT_EQ(c->window(), 60'016u);  // + 1 / 60
}

// 6 x 12.5 x 100,000 + 12.5 x 6,000 bytes are allowed, not what the guess of a base RTT of 10 us gives.
TEST(Hybrid, AGuessedBaseRttHoldsTheWindowNoLongerThanUntilOneIsMeasured) {
  const auto c = build_controller("hybrid", {{"scaling_range", 0}}, {.packet = 1000}, nullptr);
  for (uint64_t i = 1; i <= 2'000; ++i) c->ack(ack(1ms, 100us, false, i * 1000));
  EXPECT_EQ(c->window(), 2'026'000u);
  for (uint64_t i = 2'001; i <= 10'000; ++i) c->ack(ack(2ms, 100us, false, i * 1000));
  EXPECT_EQ(c->window(), 7'575'000u);
}

TEST(Hybrid, AfterATimeoutThePathIsFoundAnew) {
  const auto c = build({{"slow_start", 1}});
  c->ack(ack(100us, 36us, true));
  ASSERT_EQ(c->window(), 60'000u);
  c->timeout(Time(1ms));
  EXPECT_EQ(c->window(), 30'000u);
  for (uint64_t i = 1; i <= 30; ++i) c->ack(ack(2ms, 12us, false, 120'000 + i * 1000));
  EXPECT_EQ(c->window(), 60'000u);
  for (int i = 0; i < 5; ++i) c->timeout(Time(3ms + i * 1ms));
  EXPECT_EQ(c->window(), 500u);  // least_window
}

}  // namespace
}  // namespace megascale::hybrid_test
