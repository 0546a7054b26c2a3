#include "cc/nscc.h"

#include <gtest/gtest.h>

namespace megascale::nscc_test {
namespace {

// 100 Gb/s and 12 us, for which the constants are given: 150,000 bytes; at most 225,000.
constexpr PathFacts kPath{.line_rate = Rate::gigabits(100), .packet = 4096, .base_rtt = 12us};

std::unique_ptr<Controller> build(Parameters p = {}) {
  p.emplace("smoothing", 1);
  return build_controller("nscc", p, kPath, nullptr);
}

Ack ack(Duration now, Duration rtt, Bytes bytes, bool marked = false) {
  return {.now = Time(now), .sequence = 1, .bytes = bytes, .rtt = rtt, .ecn_marked = marked};
}

TEST(Nscc, TheFourQuadrants) {
  const auto c = build();
  EXPECT_EQ(c->window(), 225'000u);
  // Marked and 24 us of delay against a target of 12: 1 - 0.8 x 12 / 24 = 0.6.
  c->ack(ack(100us, 36us, 0, true));
  EXPECT_EQ(c->window(), 135'000u);
  // Marked below the target: left to path selection.
  c->ack(ack(101us, 18us, 5000, true));
  EXPECT_EQ(c->window(), 135'000u);
  // Not marked, 6 us: 4 x 4096 x 5000 x 6 / 12 = 40,960,000 are kept for later.
  c->ack(ack(102us, 18us, 5000));
  EXPECT_EQ(c->window(), 135'000u);
  // Not marked, 18 us, over the target: 5 x 4096 x 5000 = 102,400,000. More than 12 us since the first
  // acknowledgement, so both are applied: 143,360,000 / 135,000 = 1061.93 and eta, 0.15 x 4096 = 614.4.
  c->ack(ack(113us, 30us, 5000));
  EXPECT_EQ(c->window(), 136'676u);
}

// At 24 us twice the BDP, and so twice the constants; but growth is by delay over 12 us, whatever the target.
TEST(Nscc, GrowthIsScaledByTheReferenceRttAndNotByTheTarget) {
  const auto c =
      build_controller("nscc", {{"smoothing", 1}, {"eta", 0}},
                       {.line_rate = Rate::gigabits(100), .packet = 4096, .base_rtt = 24us}, nullptr);
  c->ack(ack(100us, 72us, 0, true));  // 1 - 0.8 x 24 / 48 = 0.6 of 450,000
  ASSERT_EQ(c->window(), 270'000u);
  // 18 us below the target: 4 x 2 x 4096 x 5000 x 18 / 12 = 245,760,000; over 270,000.
  c->ack(ack(125us, 30us, 5000));
  EXPECT_EQ(c->window(), 270'910u);
}

TEST(Nscc, DecreasesOnceInABaseRtt) {
  const auto c = build({{"eta", 0}});
  c->ack(ack(100us, 36us, 0, true));
  c->ack(ack(111us, 36us, 0, true));
  EXPECT_EQ(c->window(), 135'000u);
  c->ack(ack(112us, 36us, 0, true));
  EXPECT_EQ(c->window(), 81'000u);
}

TEST(Nscc, AWindowWithoutQueueGrowsFast) {
  const auto c = build({{"most_window", 1000}, {"adapt_delay", 1e6}});
  c->timeout(Time(0us));  // one packet
  ASSERT_EQ(c->window(), 4096u);
  c->ack(ack(1us, 12us, 4096));
  const Bytes before = c->window();
  c->ack(ack(2us, 12us, 4096));  // more than a window met no queue: + 0.25 x 4096
  EXPECT_EQ(c->window(), before + 1024);
}

TEST(Nscc, FarAboveTheTargetTheWindowIsWhatArrived) {
  const auto c = build();
  c->sent(Time(0us), 225'000, 225'000);
  c->ack(ack(100us, 100us, 4096, true));
  // 24 us = base RTT + target later, with 88 us of delay, over four targets: 4096 + 8192 bytes arrived.
  Ack a = ack(125us, 100us, 8192, true);
  a.sequence = 12'288;
  c->ack(a);
  EXPECT_EQ(c->window(), 12'288u);
  // Until all that was in flight then is acknowledged nothing is learned from feedback.
  a = ack(140us, 100us, 4096, true);
  a.sequence = 100'000;
  c->ack(a);
  EXPECT_EQ(c->window(), 12'288u);
}

TEST(Nscc, ANotificationIsAMarkOnTheNextAcknowledgement) {
  const auto c = build();
  c->cnp(Time(99us));
  c->ack(ack(100us, 36us, 0));
  EXPECT_EQ(c->window(), 135'000u);
}

}  // namespace
}  // namespace megascale::nscc_test
