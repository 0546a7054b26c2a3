// Scenarios 3 and 4: where Swift's queue stands, and what flow scaling and pacing are worth in an incast.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fabric_tools/sim/path.h"
#include "tests/integration/sim/streams.h"
#include "tests/integration/sim/validation.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

constexpr double kBytesPerSecond = 100e9 / 8, kPacket = 4160;

// The target as the scenario has it: base RTT + 6 us, flow scaling of 24 us between 0.1 and 100 packets.
sim::Setup swift_on(const Topology& t) {
  sim::Setup setup = preset_on(t, "swift");
  setup.parameters["base_target"] = 0;
  setup.parameters["queue_target"] = 6e-6;
  setup.parameters["hop_target"] = 0;
  setup.parameters["scaling_range"] = 24e-6;
  setup.parameters["scaling_least_window"] = 0.1;
  setup.parameters["scaling_most_window"] = 100;
  return setup;
}

double scaling(double window) {
  const double a = 24e-6 / (1 / std::sqrt(0.1) - 1 / std::sqrt(100.0));
  return std::clamp(a / std::sqrt(window) - a / std::sqrt(100.0), 0.0, 24e-6);
}

// q = C (tq + fs(w)), with windows that hold what is in flight and in the queue: w = (C base + q) / (N
// packet).
double queue_at_target(unsigned flows, double base_rtt) {
  double q = 0;
  for (int i = 0; i < 200; ++i) {
    const double window = (kBytesPerSecond * base_rtt + q) / (flows * kPacket);
    q = kBytesPerSecond * (6e-6 + scaling(window));
  }
  return q;
}

class SwiftSteady : public testing::TestWithParam<unsigned> {};

TEST_P(SwiftSteady, Scenario3TheQueueIsTheTargets) {
  const unsigned flows = GetParam();
  const Topology t = one_bottleneck(flows + 1);
  sim::Setup setup = swift_on(t);
  setup.limit = 60ms;
  setup.sample = 5us;
  Streams streams(streams_to_first(flows), 1ms);
  const Result r = simulate(setup, streams);
  const PortSamples s = samples_of(setup, r, port_to(t, 0), 20ms);
  const double least = queue_at_target(flows, seconds(PathTimes(setup).base_rtt(1, 0)));
  const double jain = streams.jain(Time(20ms), Time(setup.limit));
  show(fmt::format("scenario 3, {} flows: mean queue, KB", flows), s.mean_queue / 1e3,
       fmt::format("{:.1f} to {:.1f}", least / 1e3, (least + flows * kPacket) / 1e3));
  show("    utilisation", s.utilisation, "1");
  show("    Jain index", jain, "> 0.99");
  EXPECT_GE(s.mean_queue,
            least - kPacket);  // the packet that is being sent is in the delay, not in the queue
  EXPECT_LE(s.mean_queue, least + flows * kPacket);
  EXPECT_GE(s.utilisation, 0.99);
  EXPECT_GT(jain, 0.99);
}

INSTANTIATE_TEST_SUITE_P(Flows, SwiftSteady, testing::Values(2, 16));

struct Incast {
  unsigned senders;
  Bytes bytes;
  double most;  // completion over ideal
};

class SwiftIncast : public testing::TestWithParam<Incast> {};

// Paced by the target below one packet. The published prototype needed 2.65 times the ideal for 512 when it
// paced by the last RTT instead, and 0.94 of the link for 256 steady flows. Here that does not happen (1.05,
// 0.999), and Swift's own rule says why: all packets of the first window leave at once, so that the k-th
// acknowledgement shows an RTT as long as the time since they left, and no second decrease is due before the
// whole burst has drained ("once per RTT"). The windows are 38, 19, 9.5 ... packets in the first rounds, 76
// of a message's 123, and do not come near the 0.1 packets with an RTT of milliseconds in which such pacing
// would stall.
TEST_P(SwiftIncast, Scenario4EndsWithTheLink) {
  const auto& [senders, bytes, most] = GetParam();
  const Topology t = one_bottleneck(senders + 1);
  sim::Setup setup = swift_on(t);
  setup.parameters["pace_by_target"] = 1;
  Sends traffic(incast(senders, bytes));
  const Result r = simulate(setup, traffic);
  const double packets = std::ceil(static_cast<double>(bytes) / 4096);
  const double ideal = senders * (static_cast<double>(bytes) + packets * 64) / kBytesPerSecond;
  const double over = seconds(r.completion) / ideal;
  show(fmt::format("scenario 4: incast of {}, completion over ideal", senders), over,
       fmt::format("1 to {}", most));
  EXPECT_TRUE(r.finished);
  EXPECT_EQ(r.dropped, 0u);
  EXPECT_GE(over, 1);
  EXPECT_LE(over, most);
}

INSTANTIATE_TEST_SUITE_P(Senders, SwiftIncast,
                         testing::Values(Incast{64, 1'000'000, 1.02}, Incast{256, 500'000, 1.06},
                                         Incast{512, 500'000, 1.10}));

// Swift's paper, section 5: 5000 flows to one at 100 Gb/s keep the link full, with an RTT of about 110 us at
// a base target of 25 us, and hardly a loss.
TEST(SwiftMany, Scenario4FiveThousandToOne) {
  constexpr uint32_t kHosts = 100, kFlows = 5000;
  const Topology t = single_switch(kHosts + 1, Rate::gigabits(100), 2us);
  sim::Setup setup = preset_on(t, "swift");
  setup.parameters["initial_window"] = 0.001;
  setup.limit = 60ms;
  setup.sample = 10us;
  std::vector<Stream> flows;
  for (uint32_t i = 0; i < kFlows; ++i) flows.push_back({1 + i % kHosts, 0, {}});
  Streams streams(flows, 1ms);
  const Result r = simulate(setup, streams);
  const PortSamples s = samples_of(setup, r, port_to(t, 0), 30ms);
  const double rtt = s.mean_queue / kBytesPerSecond + seconds(PathTimes(setup).base_rtt(1, 0));
  show("scenario 4: 5000 to 1, utilisation", s.utilisation, ">= 0.99");
  show("    RTT, us", rtt * 1e6, "110 +- 20 %");
  EXPECT_GE(s.utilisation, 0.99);
  EXPECT_NEAR(rtt, 110e-6, 22e-6);
  EXPECT_EQ(r.dropped, 0u);
}

}  // namespace
}  // namespace megascale::sim
