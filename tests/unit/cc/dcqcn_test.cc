#include "cc/dcqcn.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megascale::dcqcn_test {
namespace {

constexpr double kGiga = 1e9;

std::unique_ptr<Controller> build(const Parameters& p, Rate line) {
  std::vector<std::string> complaints;
  auto c = build_controller("dcqcn", p, {.line_rate = line, .packet = 1000, .base_rtt = 10us}, &complaints);
  EXPECT_TRUE(complaints.empty());
  return c;
}

double rate(const Controller& c) { return c.rate().bits_per_second / kGiga; }

// Ticks when it asks for it, and says when that was.
Duration tick(Controller& c) {
  const Time when = c.next_tick();
  c.tick(when);
  return when.time_since_epoch();
}

TEST(Dcqcn, StartsAtLineRateAndAsksForNoTicks) {
  const auto c = build({}, Rate::gigabits(40));
  EXPECT_EQ(c->rate(), Rate::gigabits(40));
  EXPECT_EQ(c->window(), kNoWindow);
  EXPECT_EQ(c->next_tick(), kNever);
}

TEST(Dcqcn, ThePapersSequence) {
  const auto c = build({}, Rate::gigabits(40));
  c->cnp(Time(0us));
  // alpha = 1: target 40, rate 40 x (1 - 1/2) = 20; then alpha = (1 - 1/256) x 1 + 1/256 = 1.
  EXPECT_DOUBLE_EQ(rate(*c), 20);
  // Fast recovery, each 55 us half of the way to 40.
  EXPECT_EQ(tick(*c), 55us);
  EXPECT_DOUBLE_EQ(rate(*c), 30);

  c->cnp(Time(60us));
  // One period of 55 us without a notification: alpha = 255/256. Target 30,
  // rate 30 x (1 - 255/512) = 30 x 257/512 = 15.05859375.
  EXPECT_DOUBLE_EQ(rate(*c), 15.05859375);
  // alpha = (255/256)^2 + 1/256 = 0.9961090087890625; the timer begins anew.
  EXPECT_EQ(tick(*c), 115us);
  EXPECT_DOUBLE_EQ(rate(*c), 22.529296875);  // (15.05859375 + 30) / 2
  EXPECT_EQ(tick(*c), 170us);
  EXPECT_DOUBLE_EQ(rate(*c), 26.2646484375);  // (22.529296875 + 30) / 2
  tick(*c);
  EXPECT_DOUBLE_EQ(rate(*c), 28.13232421875);
  tick(*c);
  EXPECT_DOUBLE_EQ(rate(*c), 29.066162109375);
  tick(*c);
  EXPECT_DOUBLE_EQ(rate(*c), 29.5330810546875);  // the fifth, F
  // Additive increase: target 30.04.
  EXPECT_EQ(tick(*c), 390us);
  EXPECT_NEAR(rate(*c), 29.78654052734375, 1e-9);  // (29.5330810546875 + 30.04) / 2
}

TEST(Dcqcn, NotificationsInsideTheGapDoNothing) {
  const auto c = build({}, Rate::gigabits(40));
  c->cnp(Time(0us));
  c->cnp(Time(49us));
  EXPECT_DOUBLE_EQ(rate(*c), 20);
  c->ack({.now = Time(50us), .bytes = 1000, .ecn_marked = true});  // a mark is a notification
  EXPECT_DOUBLE_EQ(rate(*c), 10);
}

TEST(Dcqcn, BytesRaiseTheRateAsTimeDoesAndBothTogetherHyper) {
  const auto c = build({{"byte_counter", 1e6}, {"fast_recovery", 1}}, Rate::gigabits(40));
  c->cnp(Time(0us));
  c->sent(Time(1us), 1'000'000, 0);
  EXPECT_DOUBLE_EQ(rate(*c), 30);  // byte stage 0 of F = 1: recovery, half of the way to 40
  c->cnp(Time(51us));              // target 30; alpha = 1, since no period of 55 us passed
  EXPECT_DOUBLE_EQ(rate(*c), 15);
  c->sent(Time(52us), 1'000'000, 0);
  EXPECT_DOUBLE_EQ(rate(*c), 22.5);  // recovery; byte stage 1
  c->sent(Time(53us), 1'000'000, 0);
  EXPECT_NEAR(rate(*c), 26.27, 1e-9);  // stages 0 and 1: additive, target 30.04
  tick(*c);                            // stages 0 and 2: additive, target 30.08
  EXPECT_NEAR(rate(*c), 28.175, 1e-9);
  tick(*c);  // stages 1 and 2: additive, target 30.12
  EXPECT_NEAR(rate(*c), 29.1475, 1e-9);
  tick(*c);  // stages 2 and 2, both past F: hyper, i = 1, target 30.32
  EXPECT_NEAR(rate(*c), 29.73375, 1e-9);
}

Parameters connectx() {
  return {{"g", 5.0 / 1024},
          {"initial_alpha", 1023.0 / 1024},
          {"alpha_timer", 1e-6},
          {"cut_gap", 4e-6},
          {"increase_timer", 300e-6},
          {"byte_counter", 0},
          {"fast_recovery", 1},
          {"additive_rate", 5e6},
          {"hyper_rate", 50e6},
          {"clamp_target", 0},
          {"nic_order", 1}};
}

TEST(Dcqcn, TheNicsSequence) {
  const auto c = build(connectx(), Rate::gigabits(100));
  c->cnp(Time(0us));
  EXPECT_EQ(rate(*c), 100) << "a cut waits for its beat";
  EXPECT_EQ(c->next_tick(), Time(4us));
  c->cnp(Time(500ns));  // the same period of alpha, the same beat
  c->tick(Time(4us));
  // Four periods of alpha, the first with a notification:
  //   1023/1024 x 1019/1024 + 5/1024           = 0.999027967
  //   0.999027967 x (1019/1024)^3              = 0.984465 ...
  // rate = 100 x (1 - alpha / 2).
  const double g = 5.0 / 1024, alpha = (1023.0 / 1024 * (1 - g) + g) * (1 - g) * (1 - g) * (1 - g);
  EXPECT_NEAR(alpha, 0.984465, 1e-6);
  EXPECT_NEAR(rate(*c), 100 * (1 - alpha / 2), 1e-9);
  EXPECT_NEAR(rate(*c), 50.776739, 1e-5);

  // 300 us later: recovery toward 100, since the target was not clamped at stage 0.
  EXPECT_EQ(tick(*c), 304us);
  EXPECT_NEAR(rate(*c), (50.776739 + 100) / 2, 1e-5);
  // Then a second notification at 310.3 us; beats are multiples of 4 us since 4 us: the cut is at 312 us.
  // Stage 1, so the target becomes the rate, 75.38837.
  c->cnp(Time(310300ns));
  EXPECT_EQ(tick(*c), 312us);
  // alpha decayed for 306 periods, then one of notification (310 to 311 us), then 1 more without.
  const double decayed = alpha * std::pow(1 - g, 306);
  const double later = (decayed * (1 - g) + g) * (1 - g);
  EXPECT_NEAR(rate(*c), 75.3883695 * (1 - later / 2), 1e-4);
  // Recovery (stage 0), additive (stage 1), hyper (stage 2).
  const double after = rate(*c), target = 75.3883695;
  EXPECT_EQ(tick(*c), 612us);
  EXPECT_NEAR(rate(*c), (after + target) / 2, 1e-4);
  const double second = rate(*c);
  tick(*c);
  EXPECT_NEAR(rate(*c), (second + target + 0.005) / 2, 1e-4);
  const double third = rate(*c);
  tick(*c);
  EXPECT_NEAR(rate(*c), (third + target + 0.055) / 2, 1e-4);
}

TEST(Dcqcn, StepsCanGrowWithThePort) {
  const auto c = build({{"rates_at", 25e9}, {"fast_recovery", 0}, {"byte_counter", 0}}, Rate::gigabits(100));
  c->cnp(Time(0us));
  c->cnp(Time(50us));
  ASSERT_DOUBLE_EQ(rate(*c), 25);
  tick(*c);
  EXPECT_DOUBLE_EQ(rate(*c), 37.58);  // target 50 + 0.04 x 4 = 50.16
}

TEST(Dcqcn, ACutLeavesItsLeastShareAndNeverLessThanTheLeastRate) {
  const auto barre = build({{"least_cut_factor", 0.9}}, Rate::gigabits(40));
  barre->cnp(Time(0us));
  EXPECT_DOUBLE_EQ(rate(*barre), 36);
  const auto low = build({{"least_rate", 1e9}}, Rate::gigabits(40));
  for (int i = 0; i < 20; ++i) low->cnp(Time(i * 50us));
  EXPECT_DOUBLE_EQ(rate(*low), 1);
}

TEST(Dcqcn, BackAtLineRateItAsksForNoMoreTicks) {
  const auto c = build({}, Rate::gigabits(40));
  c->cnp(Time(0us));
  int ticks = 0;
  while (c->next_tick() != kNever && ++ticks < 100) tick(*c);
  EXPECT_EQ(c->rate(), Rate::gigabits(40));
  EXPECT_LT(ticks, 100);
}

}  // namespace
}  // namespace megascale::dcqcn_test
