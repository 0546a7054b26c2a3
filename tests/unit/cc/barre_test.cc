#include "cc/barre.h"

#include <gtest/gtest.h>

namespace megascale::barre_test {
namespace {

constexpr PathFacts kPath{.line_rate = Rate::gigabits(100), .packet = 1000, .base_rtt = 10us};

double giga(const Controller& c) { return c.rate().bits_per_second / 1e9; }

// Sends, and hears of it an RTT later.
void round(Controller& c, Duration now, Bytes bytes, bool marked = false) {
  c.sent(Time(now - 10us), bytes, bytes);
  c.ack({.now = Time(now), .bytes = bytes, .rtt = 10us, .ecn_marked = marked});
}

TEST(Barre, ThePapersSequence) {
  const auto c = build_controller("barre", {}, kPath, nullptr);
  EXPECT_EQ(c->rate(), Rate::gigabits(100));
  c->cnp(Time(100us));
  EXPECT_NEAR(giga(*c), 98, 1e-9);
  c->cnp(Time(101us));  // each one counts
  EXPECT_NEAR(giga(*c), 96.04, 1e-9);
  round(*c, 111us, 8192);  // 10 us, not over an RTT
  EXPECT_NEAR(giga(*c), 96.04, 1e-9);
  // Clean: 100 Gb/s / 20,000 x 10 us / 1 us = 50 Mb/s.
  round(*c, 112us, 8192);
  EXPECT_NEAR(giga(*c), 96.09, 1e-9);
  round(*c, 120us, 8192);
  EXPECT_NEAR(giga(*c), 96.09, 1e-9) << "once in an RTT";
  for (int i = 1; i <= 4; ++i) round(*c, 120us + i * Duration(11us), 8192);
  EXPECT_NEAR(giga(*c), 96.29, 1e-9);
  round(*c, 175us, 8192);  // after five clean ones: a thousandth of the port
  EXPECT_NEAR(giga(*c), 96.39, 1e-9);
  round(*c, 190us, 8192, true);  // a mark: x 0.98, and slow again
  EXPECT_NEAR(giga(*c), 94.4622, 1e-9);
  round(*c, 201us, 8192);
  EXPECT_NEAR(giga(*c), 94.5122, 1e-9);
}

TEST(Barre, AnIncreaseNeedsTimeAndBytes) {
  const auto c = build_controller("barre", {}, kPath, nullptr);
  c->cnp(Time(100us));
  round(*c, 200us, 8191);
  EXPECT_NEAR(giga(*c), 98, 1e-9);
  round(*c, 201us, 1);
  EXPECT_NEAR(giga(*c), 98.05, 1e-9);
}

TEST(Barre, WithoutFeedbackForLongerThanAnRttTheRateIsAQuarter) {
  const auto c = build_controller("barre", {}, kPath, nullptr);
  c->cnp(Time(100us));  // 98 Gb/s x 10 us = 122,500 bytes, and a packet of slack
  c->sent(Time(101us), 123'000, 123'000);
  EXPECT_NEAR(giga(*c), 98, 1e-9);
  c->sent(Time(102us), 1000, 124'000);
  EXPECT_NEAR(giga(*c), 24.5, 1e-9);
  c->ack({.now = Time(103us), .bytes = 1000, .rtt = 10us});
  EXPECT_NEAR(giga(*c), 98, 1e-9);
}

}  // namespace
}  // namespace megascale::barre_test
