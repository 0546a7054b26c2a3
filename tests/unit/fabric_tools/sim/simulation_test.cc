#include "fabric_tools/sim/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric_tools/sim/path.h"
#include "fabric_tools/sim/preset.h"
#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

using testing::HasSubstr;

TEST(Simulation, AMessageAloneTakesExactlyAsLongAsForetold) {
  const Topology t = dumbbell(1, 1, Rate::gigabits(100), Rate::gigabits(37));
  const sim::Setup setup = plain(t);
  for (const Bytes bytes : {0, 1, 4095, 4096, 4097, 100'000, 1'000'001}) {
    EXPECT_EQ(run(setup, {{0, 1, bytes}}).completion, PathTimes(setup).alone(0, 1, bytes)) << bytes;
  }
}

TEST(Simulation, ASlowHopInFrontAndAShortPacketBehind) {
  const Topology t = dumbbell(1, 1, Rate::gigabits(25), Rate::gigabits(400));
  const sim::Setup setup = plain(t);
  EXPECT_EQ(run(setup, {{0, 1, 3 * 4096 + 1}}).completion, PathTimes(setup).alone(0, 1, 3 * 4096 + 1));
}

TEST(Simulation, TheBaseRoundTripIsOnePacketThereAndItsAcknowledgementBack) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  // 2 x (332.8 + 1000) ns there, 2 x (5.12 + 1000) ns back.
  EXPECT_EQ(PathTimes(setup).base_rtt(0, 1), Duration(4676));
  setup.model.hosts.delay = 3us;
  EXPECT_EQ(PathTimes(setup).base_rtt(0, 1), Duration(7676));
}

// With everything that draws lots: hashes, marks, jitter.
TEST(Simulation, TheSameSeedGivesTheSameBitsAndAnotherSeedOthers) {
  const Topology t = fat_tree(4);
  for (const char* preset : {"swift", "dcqcn:connectx"}) {
    sim::Setup setup = plain(t);
    apply(load_preset(preset), setup);
    setup.model.switches.ecn = {.on = true, .kmin = 4160, .kmax = 50 * 4160};
    setup.model.hosts.jitter = 1us;
    const auto replay = [&](uint64_t seed) {
      setup.seed = seed;
      return run(setup, permutation(16, 200'000, 1));
    };
    const Result first = replay(1), again = replay(1);
    EXPECT_GT(first.marked, 0u) << preset;
    EXPECT_EQ(first.digest, again.digest) << preset;
    EXPECT_EQ(first.events, again.events) << preset;
    EXPECT_EQ(first.completion, again.completion) << preset;
    EXPECT_EQ(first.slowdowns, again.slowdowns) << preset;
    EXPECT_NE(first.digest, replay(2).digest) << preset;
  }
}

TEST(Simulation, TwoSendersShareAnEgressAndTheLastBitComesWhenTheLinkIsThrough) {
  const Topology t = single_switch(3);
  const Result r = run(plain(t), incast(2, 100 * 4096));
  // 200 packets through one link, after the first has crossed the other.
  EXPECT_NEAR(seconds(r.completion) * 1e9, 201 * 332.8 + 2000, 2);
  EXPECT_NEAR(r.jain, 1, 1e-3);
  EXPECT_NEAR(r.slowdown.mean, 2, 0.1);
  EXPECT_NEAR(r.queue.max, 99.5 * 4160, 0.5 * 4160);  // all that came while as much left
}

TEST(Simulation, TheEstimateOfMemoryGrowsWithConnectionsAndNeedsNoRun) {
  const Topology t = fat_tree(4);
  const sim::Setup setup = plain(t);
  const Bytes few = memory_needed(setup, Sends({{0, 1, 1}}));
  const Bytes many = memory_needed(setup, Sends(std::vector<Send>(100'000, Send{0, 1, 1})));
  EXPECT_GT(many - few, 99'999 * 500u);
  EXPECT_LT(many - few, 99'999 * 2'000u);
}

TEST(Simulation, APairWithoutARouteIsNamed) {
  Builder b;
  b.add_switch("a", 0);
  b.add_switch("b", 0);
  b.add_nic(0, Rate::gigabits(100), 1us);
  b.add_nic(1, Rate::gigabits(100), 1us);
  EXPECT_THAT(complaint([&] {
                run(plain(b.topology), {{0, 1, 1}});
              }),
              HasSubstr("no route from NIC host0/0 to NIC host1/0"));
}

TEST(Simulation, ARunThatIsNotOverByItsLimitSaysSo) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.limit = 10us;
  const Result r = run(setup, {{0, 1, 1'000'000}});
  EXPECT_FALSE(r.finished);
  EXPECT_EQ(r.messages, 0u);
}

// The sender is through after 1,015,680 bytes or 81.25 us; the next event is its timeout, a second later.
TEST(Simulation, NothingHappensAfterTheLimit) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.hosts.fixed_timeout = 1s;
  setup.model.faults = {{.at = 10us, .lasts = {}, .low = "host1/0", .high = {}, .rate = 0}};
  setup.limit = 200us;
  const Result r = run(setup, {{0, 1, 1'000'000}});
  EXPECT_FALSE(r.finished);
  EXPECT_NEAR(r.ports[up_port(0)].utilisation, 81.25 / 200, 1e-3);
}

TEST(Simulation, ItStopsWhenItIsTold) {
  const Topology t = single_switch(3);
  Sends traffic(incast(2, 100'000'000));
  RunState state;
  state.stop = true;
  EXPECT_FALSE(simulate(plain(t), traffic, &state).finished);
  EXPECT_GE(state.done.load(), 0);
}

TEST(Simulation, NumbersThatCannotBeSimulatedAreRefusedByName) {
  const Topology t = single_switch(2);
  const auto refuses = [&](auto change, const char* what) {
    sim::Setup setup = plain(t);
    change(setup);
    EXPECT_THAT(complaint([&] { run(setup, {{0, 1, 1}}); }), HasSubstr(what));
  };
  refuses([](sim::Setup& s) { s.model.hosts.payload = 0; }, "hosts.payload");
  refuses([](sim::Setup& s) { s.model.switches.ecn.kmin = 500'000; }, "switches.ecn.kmin");
  refuses([](sim::Setup& s) { s.model.switches.ecn.pmax = 2; }, "switches.ecn.pmax");
  refuses([](sim::Setup& s) { s.model.switches.pfc.alpha = -1; }, "switches.pfc.alpha");
  refuses([](sim::Setup& s) { s.model.hosts.jitter = -1ns; }, "hosts.jitter");
  refuses([](sim::Setup& s) { s.model.hosts.payload = 65'001; }, "hosts.payload");
  refuses([](sim::Setup& s) { s.model.hosts.plb_rounds = 0; }, "hosts.plb_rounds");
  refuses([](sim::Setup& s) { s.limit = 0s; }, "limit");
  refuses([](sim::Setup& s) { s.limit = 24h + 1ns; }, "limit");
  refuses([](sim::Setup& s) { s.algorithm = "warp"; }, "warp");
  refuses([](sim::Setup& s) { s.parameters["wondow"] = 1; }, "wondow");
}

}  // namespace
}  // namespace megascale::sim
