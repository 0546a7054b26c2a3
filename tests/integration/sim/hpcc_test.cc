// Scenario 5: HPCC fills a link to 95 % with hardly a queue, and an incast without a pause.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/integration/sim/streams.h"
#include "tests/integration/sim/validation.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

struct Steady {
  unsigned flows;
  Bytes payload;
};

class HpccSteady : public testing::TestWithParam<Steady> {};

// A window rests where W = W eta / U + W_AI, so the use of the link at rest is U = eta / (1 - W_AI / W). The
// preset's W_AI is a sixteenth of (1 - eta) of the first window, and W the first window over the flows: U is
// 0.956, 0.962, 0.974 and 1.0 for 2, 4, 8 and 16 flows. The scenario's 0.93 to 0.95 hold where W_AI is small
// against W; the upper bound here is this U.
//
// A window is a whole number of packets in the end: of 4096 bytes, only 2 fit into the 2.4 that 16 flows have
// each, 0.83 of what they should. They grow to 3 and back, and the link goes up and down with them; so 16
// flows are taken with packets of 1000 bytes, as HPCC's authors do.
TEST_P(HpccSteady, Scenario5FillsTheLinkAlmostWithoutAQueue) {
  const auto& [flows, payload] = GetParam();
  const Topology t = one_bottleneck(flows + 1);
  sim::Setup setup = preset_on(t, "hpcc");
  setup.model.hosts.payload = payload;
  setup.limit = 30ms;
  setup.sample = 2us;
  Streams streams(streams_to_first(flows), 1ms);
  const Result r = simulate(setup, streams);
  const PortSamples s = samples_of(setup, r, port_to(t, 0), 10ms);
  const double at_rest = 0.95 / (1 - (1 - 0.95) / 16 * flows),
               jain = streams.jain(Time(10ms), Time(setup.limit));
  show(fmt::format("scenario 5: utilisation by {} flows, {} B", flows, payload), s.utilisation,
       fmt::format("0.93 to {:.3f}", at_rest));
  show("    p99 queue, KB", s.p99_queue / 1e3, "<= 25");
  show("    Jain index", jain, ">= 0.95");
  EXPECT_GE(s.utilisation, 0.93);
  EXPECT_LE(s.utilisation, at_rest + 0.002);
  EXPECT_LE(s.p99_queue, 25'000);
  EXPECT_GE(jain, 0.95);
}

INSTANTIATE_TEST_SUITE_P(Flows, HpccSteady,
                         testing::Values(Steady{2, 4096}, Steady{4, 4096}, Steady{8, 4096}, Steady{8, 1000},
                                         Steady{16, 1000}));

TEST(HpccIncast, Scenario5EndsAtItsTargetWithoutAPause) {
  const Topology t = fat_tree(8);
  sim::Setup setup = preset_on(t, "hpcc");
  std::vector<Send> sends;
  for (uint32_t i = 0; i < 64; ++i) sends.push_back({2 * i + 1, 0, 1'000'000});
  Sends traffic(sends);
  const Result r = simulate(setup, traffic);
  const double ideal = 64 * (1'000'000 + 245 * 64) / 12.5e9;
  show("scenario 5, incast of 64: completion over ideal", seconds(r.completion) / ideal, "1/0.95 +- 4 %");
  show("    pauses", static_cast<double>(r.pauses), "0");
  EXPECT_NEAR(seconds(r.completion) / ideal, 1 / 0.95, 0.04 / 0.95);
  EXPECT_EQ(r.pauses, 0u);
  EXPECT_EQ(r.dropped, 0u);
}

}  // namespace
}  // namespace megascale::sim
