#include "fabric_tools/sim/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "fabric_tools/sim/path.h"
#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

using testing::HasSubstr;

Fault fault(Duration at, std::optional<Duration> lasts, std::string low, std::string high = {},
            double rate = 0) {
  return {at, lasts, std::move(low), std::move(high), rate};
}

TEST(Faults, ASlowLinkIsSlowAsLongAsItLasts) {
  const Topology t = dumbbell(1, 1);
  sim::Setup setup = plain(t);
  setup.model.faults = {fault(0us, 400us, "left", "right", 0.25)};
  // In 400 us a quarter of the rate carries what 100 us do otherwise: 300 us later than alone.
  const Result r = run(setup, {{0, 1, 5'000'000}});
  EXPECT_NEAR(seconds(r.completion) * 1e6, seconds(PathTimes(setup).alone(0, 1, 5'000'000)) * 1e6 + 300, 2);
  EXPECT_EQ(r.dropped, 0u);
}

TEST(Faults, ANicWhoseLinkFlapsGoesOnAtOnceWhenItIsBack) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.faults = {fault(100us, 10ms, "host0/0")};
  const Result r = run(setup, {{0, 1, 5'000'000}});
  EXPECT_TRUE(r.finished);
  EXPECT_GT(r.completion, 10ms);
  EXPECT_NEAR(seconds(r.completion) * 1e6, seconds(PathTimes(setup).alone(0, 1, 5'000'000)) * 1e6 + 10'000,
              20);
}

// Only the flows on the dead link stall, and until hashes leave it out.
TEST(Faults, FlowsMoveToOtherLinksAfterTheReroute) {
  const Topology t = leaf_spine(2, 2, 4);
  sim::Setup setup = plain(t);
  setup.model.switches.reroute = 500us;
  std::vector<Send> sends;
  for (uint32_t i = 0; i < 4; ++i) sends.push_back({i, 4 + i, 20'000'000});
  setup.model.faults = {fault(300us, std::nullopt, "leaf0", "spine1")};
  const Result r = run(setup, sends);
  EXPECT_TRUE(r.finished);
  EXPECT_GT(r.dropped, 0u);
  const uint32_t dead = 8 + 1;  // links: 8 of NICs, then leaf0 - spine0, leaf0 - spine1
  EXPECT_GT(r.ports[up_port(dead)].packets, 0u);
  EXPECT_LT(r.ports[up_port(dead)].utilisation, 0.1);
  // All that is left goes over one link, from the reroute on.
  EXPECT_LT(seconds(r.completion), 4 * 20e6 * 8 / 100e9 * 1.02 + 1.6e-3);
}

TEST(Faults, ALinkThatReturnsIsUsedAgain) {
  const Topology t = leaf_spine(2, 2, 4);
  sim::Setup setup = plain(t);
  setup.model.faults = {fault(0us, 1ms, "spine1", "leaf0")};
  std::vector<Send> sends;
  for (uint32_t i = 0; i < 4; ++i) {
    sends.push_back({i, 4 + i, 100'000});
    for (int n = 0; n < 8; ++n) sends.push_back({i, 4 + i, 100'000, Time(1200us)});
  }
  const Result r = run(setup, sends);
  EXPECT_TRUE(r.finished);
  EXPECT_GT(r.ports[up_port(9)].packets, 100u);
}

TEST(Faults, NothingComesBackFromAFaultThatDoesNotEnd) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.faults = {fault(10us, std::nullopt, "host1/0")};
  setup.limit = 50ms;
  const Result r = run(setup, {{0, 1, 5'000'000}});
  EXPECT_FALSE(r.finished);
  EXPECT_GT(r.timeouts, 5u);
}

// Each connection is opened when its message is due. Its base RTT is that of the network as it is built.
class Late final : public Traffic {
 public:
  void begin(Wire& wire) override { wire.wake(Time(500us), 0); }
  void woken(Wire& wire, uint64_t, Time now) override { wire.post(wire.connect(0, 1), 100'000, 0, now); }
  void delivered(Wire&, const Delivery&) override { done_ = true; }
  bool finished() const override { return done_; }
  double progress() const override { return done_ ? 1 : 0; }
  uint64_t connections() const override { return 1; }

 private:
  bool done_ = false;
};

TEST(Faults, AConnectionMayBeOpenedWhileTheOnlyWayIsDown) {
  const Topology t = dumbbell(1, 1);
  sim::Setup setup = plain(t);
  setup.model.faults = {fault(100us, 1ms, "left", "right")};  // hashes know it from 200 us on
  Late traffic;
  const Result r = simulate(setup, traffic);
  EXPECT_TRUE(r.finished);
  EXPECT_GT(r.completion, 1100us);
}

TEST(Faults, OverlappingOnesLeaveTheLeast) {
  const Topology t = dumbbell(1, 1);
  sim::Setup setup = plain(t);
  setup.model.switches.reroute = 1s;
  setup.model.faults = {fault(0us, 1ms, "left", "right", 0.5), fault(0us, 400us, "left", "right", 0.25)};
  // 400 us at a quarter, 600 us at a half: 400 us worth of the full rate.
  const Result r = run(setup, {{0, 1, 10'000'000}});
  EXPECT_NEAR(seconds(r.completion) * 1e6, seconds(PathTimes(setup).alone(0, 1, 10'000'000)) * 1e6 + 600, 3);
}

// Each is found by name and ends by itself: the cost does not grow with the square of their number.
TEST(Faults, AHundredThousandOnOneLinkAreNoHang) {
  const Topology t = dumbbell(1, 1);
  sim::Setup setup = plain(t);
  setup.model.switches.reroute = 1s;
  for (int i = 0; i < 100'000; ++i)
    setup.model.faults.push_back(fault(Duration(i), 20ms, "left", "right", 0.5));
  const Result r = run(setup, {{0, 1, 5'000'000}});
  EXPECT_TRUE(r.finished);
  EXPECT_NEAR(seconds(r.completion), 2 * seconds(PathTimes(setup).alone(0, 1, 5'000'000)), 20e-6);
}

TEST(Faults, WhatNothingIsCalledIsRefused) {
  const Topology t = dumbbell(1, 1);
  const auto refuses = [&](Fault fault, const char* why) {
    sim::Setup setup = plain(t);
    setup.model.faults = {fault};
    EXPECT_THAT(complaint([&] { run(setup, {{0, 1, 1}}); }), HasSubstr(why));
  };
  refuses(fault(0s, std::nullopt, "left", "middle"), "nothing has the name 'middle'");
  refuses(fault(0s, std::nullopt, "7"), "by number, 0 to 1");
  refuses(fault(0s, std::nullopt, "left"), "name the other end");
  refuses(fault(0s, std::nullopt, "host0/0", "right"), "no link joins");
  refuses(fault(0s, std::nullopt, "host0/0", "", 2), "share of the rate");
  refuses(fault(0s, 0s, "host0/0"), "last longer");
}

}  // namespace
}  // namespace megascale::sim
