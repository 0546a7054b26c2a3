// Scenario 1: one flow, to the picosecond what the wires allow. (The same bits again: a unit test.)
#include <gtest/gtest.h>

#include "tests/integration/sim/validation.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

// Packets of 4160 bytes at 100 Gb/s, 6 links of 1 us, and 5 switches that receive each packet whole.
constexpr double kPacketTime = 332.8, kLinks = 6 * 1000.0, kSwitches = 5 * kPacketTime;  // ns

double ns_for(Bytes bytes) {
  const Topology t = fat_tree(8);
  Sends traffic({{0, 127, bytes}});
  const Result r = simulate(preset_on(t, "fixed"), traffic);
  EXPECT_TRUE(r.finished);
  EXPECT_EQ(r.data_packets, 489u);
  EXPECT_EQ(r.delivered, bytes);
  EXPECT_DOUBLE_EQ(r.slowdown.max, 1);
  EXPECT_EQ(r.queue.max, 0);
  EXPECT_EQ(r.dropped + r.pauses + r.retransmitted + r.timeouts, 0u);
  return seconds(r.completion) * 1e9;
}

TEST(Wire, Scenario1OneFlowOverThreeTiers) {
  const double expected = 489 * kPacketTime + kLinks + kSwitches, took = ns_for(489 * 4096);
  show("scenario 1: 489 full packets over 6 links, us", took / 1e3, "170.4 +- 0.1 %");
  EXPECT_NEAR(expected, 170'400, 10);
  EXPECT_NEAR(took, expected, 1);  // the result is rounded to nanoseconds
}

// 2,000,000 bytes are 488 full packets and one of 1216 bytes on the wire. It waits for its predecessor on
// every link, so it costs its own serialisation once: 235.5 ns less than with 489 full ones.
TEST(Wire, Scenario1TheLastPacketIsShorter) {
  const double expected = 488 * kPacketTime + 1216 * 0.08 + kLinks + kSwitches, took = ns_for(2'000'000);
  show("scenario 1: 2 MB over 6 links, us", took / 1e3, "170.17");
  EXPECT_NEAR(took, expected, 1);
}

}  // namespace
}  // namespace megascale::sim
