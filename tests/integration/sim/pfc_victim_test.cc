// Scenario 6: a flow that has no part in the congestion, and what pauses leave of it.
#include <gtest/gtest.h>

#include "tests/integration/sim/streams.h"
#include "tests/integration/sim/validation.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

struct Seen {
  double early = 0, late = 0;  // Gb/s of payload that the victim gets: in 0 to 3 ms, in 5 to 20 ms
  uint64_t pauses = 0, dropped = 0;
  double receiver = 0;  // the share of host 10's link that is used
};

// Hosts 0 to 3 on ToR A and 5 to 8 on ToR B send to host 10 on B; the victim from 4 on A to 11 on B shares
// only the link between the ToRs.
Seen victim_under(const std::string& preset) {
  Builder b;
  b.add_switch("a", 0);
  b.add_switch("b", 0);
  for (uint32_t i = 0; i < 5; ++i) b.add_nic(0, Rate::gigabits(100), 1us);
  for (uint32_t i = 5; i < 12; ++i) b.add_nic(1, Rate::gigabits(100), 1us);
  b.join(0, 1, Rate::gigabits(100), 1us);
  sim::Setup setup = preset_on(b.topology, preset);
  setup.model.switches.buffer = 4'000'000;
  setup.model.hosts.payload = 1000;
  setup.limit = 20ms;
  std::vector<Stream> flows = {{4, 11, {}}};
  for (const uint32_t source : {0, 1, 2, 3, 5, 6, 7, 8}) flows.push_back({source, 10, {}});
  Streams streams(flows, 1ms);
  const Result r = simulate(setup, streams);
  return {streams.goodput(0, Time{}, Time(3ms)).bits_per_second / 1e9,
          streams.goodput(0, Time(5ms), Time(20ms)).bits_per_second / 1e9, r.pauses, r.dropped,
          r.ports[port_to(b.topology, 10)].utilisation};
}

void show_victim(const std::string& preset, const Seen& s, const std::string& expected) {
  show("scenario 6: goodput of the victim under " + preset + ", Gb/s", s.early, expected);
  show("    later", s.late, "-");
  show("    pauses", static_cast<double>(s.pauses), "-");
}

// Pauses give each of the 5 ports that feed host 10 the same share, 20 Gb/s; the link between the ToRs goes
// at that pace, and each of the 5 ports that feed it gets the same: C / ((L + 1) M) = 100 / (5 x 4) for M = 4
// of the incast's flows there, 100 / (5 x 5) with the victim counted among those that wait, as long as it is
// paused like them. Measured: 4.8 in ns-3 with 1000 bytes of payload, and 4.6 here with 1000 of 1064.
TEST(PfcVictim, Scenario6PausesAlone) {
  const Seen s = victim_under("fixed");
  show_victim("pauses alone", s, "5 x 1000/1064 +- 10 %");
  const double expected = 100.0 / (5 * 4) * 1000 / 1064;
  EXPECT_NEAR(s.early, expected, 0.1 * expected);
  EXPECT_NEAR(s.late, expected, 0.1 * expected);
  EXPECT_GT(s.pauses, 1000u);
  EXPECT_EQ(s.dropped, 0u);
  EXPECT_NEAR(s.receiver, 1, 0.01);
}

// ns-3's figures are of a run of unknown length from its beginning; 3 ms were chosen here because they
// fit: 45.9 for HPCC, 13.7 for DCQCN as NICs do it. Those of the paper's DCQCN (22.6) and of TIMELY (28.2)
// cannot be had with the papers' constants: after the first burst DCQCN's victim stands at 5 Gb/s and gains
// 40 Mb/s each 55 us, 0.7 Gb/s in a millisecond (ns-3's variant goes on to its hyper increase by time alone);
// TIMELY gains 10 Mb/s a step, and then leaves the flows that cross both queues nothing, so that the victim
// has more than its fair half (Zhu et al., CoNEXT 2016: TIMELY has no fixed point, and may be arbitrarily
// unfair).
TEST(PfcVictim, Scenario6CongestionControlInItsOrder) {
  const Seen none = victim_under("fixed"), connectx = victim_under("dcqcn:connectx"),
             hpcc = victim_under("hpcc");
  show_victim("DCQCN as in NICs", connectx, "13.7 in ns-3");
  show_victim("HPCC", hpcc, "45.9 +- 10 %");
  EXPECT_NEAR(hpcc.early, 45.9, 4.59);
  EXPECT_NEAR(hpcc.late, 50, 5);  // the fair half
  EXPECT_EQ(hpcc.pauses, 0u);
  EXPECT_GT(connectx.early, 1.1 * none.early);
  EXPECT_LT(connectx.early, hpcc.early);
  EXPECT_LT(connectx.pauses, none.pauses / 10);
}

}  // namespace
}  // namespace megascale::sim
