#include "cc/swift.h"

#include <gtest/gtest.h>

namespace megascale::swift_test {
namespace {

// 100 Gb/s, 10 us, packets of 1000 bytes: the product of rate and base RTT is 125 packets.
constexpr PathFacts kPath{.line_rate = Rate::gigabits(100), .packet = 1000, .base_rtt = 10us};

std::unique_ptr<Controller> build(Parameters p) {
  p.emplace("base_target", 0);
  p.emplace("queue_target", 5e-6);
  std::vector<std::string> complaints;
  auto c = build_controller("swift", p, kPath, &complaints);
  EXPECT_TRUE(complaints.empty());
  return c;
}

Ack ack(Duration now, Duration rtt, Bytes bytes = 1000) {
  return {.now = Time(now), .bytes = bytes, .rtt = rtt};
}

TEST(Swift, GrowsByAPacketInAnRttAndFallsByTheDelayOnceInAnRtt) {
  const auto c = build({{"scaling_range", 0}});
  EXPECT_EQ(c->window(), 125'000u);
  c->ack(ack(100us, 10us));
  EXPECT_EQ(c->window(), 125'008u);  // 125 + 1 / 125
  c->ack(ack(101us, 30us));
  // The target is 15 us: 1 - 0.8 x (30 - 15) / 30 = 0.6 of 125.008 packets.
  EXPECT_EQ(c->window(), 75'004u);  // 75.0048
  c->ack(ack(130us, 30us));
  EXPECT_EQ(c->window(), 75'004u) << "29 us after the last decrease";
  c->ack(ack(131us, 30us));
  EXPECT_EQ(c->window(), 45'002u);  // 75.0048 x 0.6 = 45.00288
  c->ack(ack(500us, 300us));
  // 1 - 0.8 x 285 / 300 = 0.24, but no decrease takes more than half.
  EXPECT_EQ(c->window(), 22'501u);  // 22.50144
}

TEST(Swift, TheTargetGrowsAsTheWindowShrinks) {
  // a = 30 / (1 / sqrt(0.25) - 1 / sqrt(4)) = 30 / 1.5 = 20 us, b = -20 / sqrt(4) = -10 us:
  // a window of 4 adds 0, of 1 adds 10, of 0.25 adds 30, of less no more.
  const Parameters scaling{{"scaling_range", 30e-6},
                           {"scaling_least_window", 0.25},
                           {"scaling_most_window", 4},
                           {"increase", 0.001}};
  struct Case {
    double window;  // packets
    Duration target;
  };
  for (const Case& one : {Case{16, 15us}, {4, 15us}, {1, 25us}, {0.25, 45us}, {0.01, 45us}}) {
    Parameters p = scaling;
    p["initial_window"] = one.window / 125;
    const auto below = build(p), above = build(p);
    const Bytes window = below->window();
    below->ack(ack(100us, one.target - 100ns, 100'000));
    above->ack(ack(100us, one.target + 1us, 100'000));
    EXPECT_GT(below->window(), window) << one.window;
    EXPECT_LT(above->window(), window) << one.window;
  }
}

TEST(Swift, HopsAddToTheTarget) {
  const auto near = build({{"scaling_range", 0}}), far = build({{"scaling_range", 0}});
  Ack a = ack(100us, 17us);
  near->ack(a);
  a.hops = 5;  // 5 us: the target is 20 us
  far->ack(a);
  EXPECT_LT(near->window(), 125'000u);
  EXPECT_GT(far->window(), 125'000u);
}

TEST(Swift, BelowOnePacketItPaces) {
  const auto by_rtt = build({{"scaling_range", 0}, {"initial_window", 0.5 / 125}});
  const auto by_target = build({{"scaling_range", 0}, {"initial_window", 0.5 / 125}, {"pace_by_target", 1}});
  by_rtt->ack(ack(100us, 14us, 0));
  by_target->ack(ack(100us, 14us, 0));
  EXPECT_EQ(by_rtt->window(), 500u);
  // Half a packet: one each 14 us / 0.5 = 28 us, or each 15 us / 0.5 = 30 us.
  EXPECT_NEAR(by_rtt->rate().bits_per_second, 8000 / 28e-6, 1);
  EXPECT_NEAR(by_target->rate().bits_per_second, 8000 / 30e-6, 1);
  by_rtt->ack(ack(101us, 14us, 1000));  // below one packet each acknowledged packet adds a whole increase
  EXPECT_EQ(by_rtt->window(), 1500u);
  EXPECT_EQ(by_rtt->rate(), Rate::gigabits(100));
}

TEST(Swift, TimeoutsHalveAndAfterFiveInARowTheWindowIsTheLeast) {
  const auto c = build({{"scaling_range", 0}});
  const Bytes halves[] = {62'500, 31'250, 15'625, 7'812};
  Duration now = 1ms;
  for (const Bytes half : halves) {
    c->timeout(Time(now));
    EXPECT_EQ(c->window(), half);
    now += 1ms;
  }
  c->timeout(Time(now));
  EXPECT_EQ(c->window(), 1u);  // 0.001 packets
  const auto heard = build({{"scaling_range", 0}});
  for (int i = 0; i < 4; ++i) heard->timeout(Time(i * 1ms));
  heard->loss(Time(10ms), 1000);  // something came back: the count begins anew
  heard->timeout(Time(11ms));
  EXPECT_EQ(heard->window(), 1'953u);  // 125 / 2^6
}

// 2 x 12.5 x 105,000 bytes are allowed, not what the guess of a base RTT of 10 us gives.
TEST(Swift, AGuessedBaseRttHoldsTheWindowNoLongerThanUntilOneIsMeasured) {
  const auto c = build_controller(
      "swift", {{"base_target", 0}, {"queue_target", 5e-6}, {"scaling_range", 0}, {"increase", 1000}},
      {.packet = 1000}, nullptr);
  c->ack(ack(1ms, 100us, 1'000'000));
  EXPECT_EQ(c->window(), 2'625'000u);
}

TEST(Swift, ASlowHostHasAWindowOfItsOwn) {
  const auto c = build({{"scaling_range", 0}, {"host_target", 10e-6}});
  Ack a = ack(1ms, 200us);
  a.remote_hold = 190us;  // the fabric's part is 10 us, below its target
  c->ack(a);
  // The smoothed hold is 190 / 8 = 23.75 us: 1 - 0.8 x 13.75 / 23.75 = 0.5368 of the largest window,
  // 2 x 12.5 x 15000 / 1000 = 375 packets: 201.3, more than the fabric's 125.008.
  EXPECT_EQ(c->window(), 125'008u);
  a.now += 200us;
  c->ack(a);
  // Smoothed: 23.75 + (190 - 23.75) / 8 = 44.53125: 1 - 0.8 x 34.53125 / 44.53125 = 0.37965, at most half:
  // 100.66.
  EXPECT_NEAR(static_cast<double>(c->window()), 100'658, 1);
}

}  // namespace
}  // namespace megascale::swift_test
