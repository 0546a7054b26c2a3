#include "cc/hpcc.h"

#include <gtest/gtest.h>

namespace megascale::hpcc_test {
namespace {

// 100 Gb/s and 10 us: 125,000 bytes. The step is 125,000 x 0.05 / 16 = 390.625 bytes.
constexpr PathFacts kPath{.line_rate = Rate::gigabits(100), .packet = 1000, .base_rtt = 10us};

class Hpcc : public ::testing::Test {
 protected:
  // A hop reports that it has sent so many bytes by then.
  void tell(Duration at, Bytes queue, Bytes transmitted, uint64_t sequence) {
    const HopReport report{
        .at = Time(at), .queue = queue, .transmitted = transmitted, .capacity = Rate::gigabits(100)};
    c_->telemetry({.now = Time(at + 5us), .sequence = sequence, .hops = {&report, 1}});
  }
  std::unique_ptr<Controller> c_ = build_controller("hpcc", {}, kPath, nullptr);
};

TEST_F(Hpcc, ThePapersSequence) {
  EXPECT_TRUE(c_->wants_telemetry());
  EXPECT_EQ(c_->window(), 125'000u);
  c_->sent(Time(0us), 125'000, 125'000);
  tell(10us, 12'500, 0, 1000);  // the first only begins the series
  EXPECT_EQ(c_->window(), 125'000u);
  // 10 us = T later: throughput 125,000 / 10 us = line rate, 1; queue min(12,500, 25,000) / 125,000 = 0.1.
  // U = 1.1 at once, since tau = T. W = 125,000 x 0.95 / 1.1 + 390.625 = 108,345.17.
  tell(20us, 25'000, 125'000, 2000);
  EXPECT_EQ(c_->window(), 108'345u);
  EXPECT_NEAR(c_->rate().bits_per_second, 108'345.17 * 8 / 10e-6, 1e5);
  // 1 us later: throughput 12,500 / 1 us = 1, queue 0: u = 1; U = 0.9 x 1.1 + 0.1 x 1 = 1.09.
  // The reference is still that of the beginning: 125,000 x 0.95 / 1.09 + 390.625 = 109,335.58.
  tell(21us, 0, 137'500, 3000);
  EXPECT_EQ(c_->window(), 109'335u);
  // All that was in flight at the first acknowledgement is acknowledged: this window is the new reference.
  // U = 0.9 x 1.09 + 0.1 x 1 = 1.081: 125,000 x 0.95 / 1.081 + 390.625 = 110,242.85.
  tell(22us, 0, 150'000, 126'000);
  EXPECT_EQ(c_->window(), 110'242u);
  // U = 0.9 x 1.081 + 0.1 = 1.0729: 110,242.85 x 0.95 / 1.0729 + 390.625 = 98,005.22.
  tell(23us, 0, 162'500, 127'000);
  EXPECT_EQ(c_->window(), 98'005u);
}

TEST_F(Hpcc, BelowTheTargetItAddsForFiveRoundsAndThenMultiplies) {
  c_->sent(Time(0us), 1000, 1000);
  tell(10us, 0, 0, 1000);
  tell(20us, 0, 250'000, 2000);  // U = 2 : W = 125,000 x 0.95 / 2 + 390.625 = 59,765.625, the reference
  ASSERT_EQ(c_->window(), 59'765u);
  Bytes sent = 250'000;
  for (unsigned round = 1; round <= 5; ++round) {  // nothing is in flight: each acknowledgement ends a round
    sent += 62'500;                                // U = 0.5
    tell(20us + round * 10us, 0, sent, 2000 + round * 1000);
    EXPECT_EQ(c_->window(), static_cast<Bytes>(59'765.625 + round * 390.625)) << round;
  }
  sent += 62'500;
  tell(80us, 0, sent, 8000);
  // (59,765.625 + 5 x 390.625) x 0.95 / 0.5 + 390.625 = 117,656: stage 5 multiplies.
  EXPECT_EQ(c_->window(), 117'656u);
}

// The window of 100 Gb/s and a guessed 10 us, in the 20 us that were measured.
TEST(HpccUntold, TheBaseRttIsLearned) {
  const auto c = build_controller("hpcc", {}, {.line_rate = Rate::gigabits(100), .packet = 1000}, nullptr);
  c->ack({.now = Time(1ms), .bytes = 1000, .rtt = 20us});
  EXPECT_EQ(c->window(), 125'000u);
  EXPECT_NEAR(c->rate().bits_per_second, 50e9, 1);
}

TEST_F(Hpcc, TheBusiestHopRules) {
  const auto tell_two = [&](Duration at, Bytes first, Bytes second, uint64_t sequence) {
    const HopReport reports[] = {{Time(at), 0, first, Rate::gigabits(100)},
                                 {Time(at), 0, second, Rate::gigabits(50)}};
    c_->telemetry({.now = Time(at), .sequence = sequence, .hops = reports});
  };
  tell_two(10us, 0, 0, 1000);
  tell_two(20us, 62'500, 62'500, 2000);  // 0.5 of the first, 1.0 of the second
  EXPECT_EQ(c_->window(), 119'140u);     // 125,000 x 0.95 / 1 + 390.625
}

TEST_F(Hpcc, AnotherPathAndTwoReportsOfOneInstantTellNothing) {
  tell(10us, 0, 0, 1000);
  tell(20us, 0, 250'000, 2000);
  const Bytes window = c_->window();
  tell(20us, 900'000, 260'000, 3000);  // no time passed
  EXPECT_EQ(c_->window(), window);
  tell(30us, 900'000, 5'000, 4000);  // fewer bytes than before: another port
  EXPECT_EQ(c_->window(), window);
  c_->telemetry({.now = Time(40us), .sequence = 5000, .hops = {}});
  EXPECT_EQ(c_->window(), window);
  tell(50us, 0, 10'000, 6000);  // a new series begins
  EXPECT_EQ(c_->window(), window);
}

}  // namespace
}  // namespace megascale::hpcc_test
