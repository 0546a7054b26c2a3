// What switches do: queues, marks, pauses, drops, balance.
#include "fabric_tools/sim/fabric.h"

#include <gtest/gtest.h>

#include "fabric_tools/sim/path.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

constexpr double kPacketTime = 332.8;  // ns, 4160 bytes at 100 Gbit/s

TEST(Ecn, NothingIsMarkedUpToTheLowerThresholdAllAboveTheUpper) {
  const Topology t = single_switch(3);
  sim::Setup setup = plain(t);
  Ecn& ecn = setup.model.switches.ecn;
  ecn.on = true;
  ecn.kmin = ecn.kmax = 50 * 4160;
  // Two senders of 100 packets: the queue behind the packet that leaves goes from 0 up to 99 and back to 0,
  // so those that leave more than 50 behind are marked.
  for (const bool on_dequeue : {true, false}) {
    ecn.on_dequeue = on_dequeue;
    const Result r = run(setup, incast(2, 100 * 4096));
    EXPECT_NEAR(static_cast<double>(r.marked), 98, 4) << on_dequeue;
  }
  ecn.kmin = ecn.kmax = 101 * 4160;
  EXPECT_EQ(run(setup, incast(2, 100 * 4096)).marked, 0u);
}

TEST(Ecn, InBetweenTheProbabilityGrows) {
  const Topology t = single_switch(3);
  sim::Setup setup = plain(t);
  setup.model.switches.ecn = {.on = true, .kmin = 0, .kmax = 10'000 * 4160, .pmax = 1};
  setup.model.switches.buffer = 1'000'000'000;
  // The queue goes evenly from 0 to 5000 packets and back: half of 0.5, on average.
  const Result r = run(setup, incast(2, 5000 * 4096));
  EXPECT_NEAR(static_cast<double>(r.marked) / static_cast<double>(r.data_packets), 0.25, 0.015);
}

TEST(Ecn, ThresholdsScaleWithThePort) {
  const Topology t = single_switch(3, Rate::gigabits(400));
  sim::Setup setup = plain(t);
  setup.model.switches.ecn = {.on = true, .kmin = 25 * 4160, .kmax = 25 * 4160};
  EXPECT_EQ(run(setup, incast(2, 100 * 4096)).marked, 0u);
  setup.model.switches.ecn.kmin = setup.model.switches.ecn.kmax = 20 * 4160;
  EXPECT_GT(run(setup, incast(2, 100 * 4096)).marked, 0u);
}

TEST(Pfc, WithoutItAQueueAboveItsShareDropsAndAllArrivesInTheEnd) {
  const Topology t = single_switch(9);
  sim::Setup setup = plain(t);
  setup.model.switches.pfc.on = false;
  setup.model.switches.buffer = 400'000;
  setup.algorithm = "swift";
  const Result r = run(setup, incast(8, 500'000));
  EXPECT_TRUE(r.finished);
  EXPECT_GT(r.dropped, 0u);
  EXPECT_GE(r.retransmitted, r.dropped);
  EXPECT_EQ(r.pauses, 0u);
  EXPECT_LE(r.queue.max, 200'000);  // alpha 1: half of the buffer for one queue
  EXPECT_EQ(r.delivered, 8u * 500'000);
}

// Five switches in a ring, each NIC sends to the one two switches on: every link carries two flows, and every
// buffer waits for the next.
TEST(Pfc, TheWatchdogBreaksTheDeadlockOfACycle) {
  const Topology t = ring(5, 2);
  sim::Setup setup = plain(t);
  setup.model.switches.buffer = 500'000;
  setup.model.switches.pfc.watchdog = 500us;
  setup.limit = 1s;
  std::vector<Send> sends;
  for (uint32_t nic = 0; nic < 10; ++nic) sends.push_back({nic, (nic + 4) % 10, 2'000'000});
  const Result r = run(setup, sends);
  EXPECT_TRUE(r.deadlock);
  EXPECT_TRUE(r.finished);
  EXPECT_GT(r.watchdogs, 0u);
  EXPECT_GT(r.dropped, 0u);
}

TEST(Pfc, TiersHaveNoCycleHoweverMuchTheyPause) {
  const Topology t = fat_tree(4);
  sim::Setup setup = plain(t);
  setup.model.switches.buffer = 500'000;
  const Result r = run(setup, all_to_all(16, 500'000));
  EXPECT_GT(r.pauses, 0u);
  EXPECT_GT(r.last_pause, 0ns);
  EXPECT_LT(r.last_pause, r.completion);
  Duration paused = 0ns;
  for (const Port& port : r.ports) paused += port.paused;
  EXPECT_GT(paused, 0ns);
  EXPECT_EQ(r.paused, paused);
  EXPECT_TRUE(r.finished);
  EXPECT_FALSE(r.deadlock);
  EXPECT_EQ(r.dropped, 0u);
}

// Four flows on four links by a hash collide more often than not; sprayed they do not.
TEST(Balance, SprayingFillsEveryLinkEvenly) {
  const Topology t = leaf_spine(2, 4, 4);
  sim::Setup setup = plain(t);
  const std::vector<Send> sends{{0, 4, 4'000'000}, {1, 5, 4'000'000}, {2, 6, 4'000'000}, {3, 7, 4'000'000}};
  const Result hashed = run(setup, sends);
  setup.model.switches.balance = Balance::kSpray;
  const Result sprayed = run(setup, sends);
  EXPECT_LT(sprayed.slowdown.max, 1.1);
  EXPECT_GT(hashed.slowdown.max, 1.9);
  EXPECT_EQ(sprayed.retransmitted, 0u);  // out of order is not lost
  for (const Port& port : sprayed.ports) {
    if (!port.up || port.packets == 0) continue;
    EXPECT_NEAR(static_cast<double>(port.packets), 977, 5);
  }
}

// In every tier a flow takes the equal ports in turn, so that each core carries the same.
TEST(Balance, SprayingIsEvenInEveryTier) {
  const Topology t = fat_tree(4);
  sim::Setup setup = plain(t);
  setup.model.switches.balance = Balance::kSpray;
  const Result r = run(setup, {{0, 15, 400 * 4096}});
  int cores = 0;
  for (const Port& port : r.ports) {
    if (t.links[port.link].high.index < 16 || port.up || port.packets == 0) continue;
    EXPECT_EQ(port.packets, 100u);
    ++cores;
  }
  EXPECT_EQ(cores, 4);
  // Nothing but the flow's own packets is on the way: they come in order, and none waits.
  EXPECT_EQ(r.completion, PathTimes(setup).alone(0, 15, 400 * 4096));
}

TEST(Balance, AFlowletAfterAPauseMayTakeAnotherPath) {
  const Topology t = leaf_spine(2, 8, 1);
  sim::Setup setup = plain(t);
  std::vector<Send> sends;
  class Bursts final : public Traffic {
   public:
    void begin(Wire& wire) override {
      const ConnectionId c = wire.connect(0, 1);
      for (int i = 0; i < 32; ++i) wire.post(c, 4096, 0, Time(i * 100us));
    }
    void delivered(Wire&, const Delivery&) override { ++done_; }
    bool finished() const override { return done_ == 32; }
    double progress() const override { return done_ / 32.0; }
    uint64_t connections() const override { return 1; }

   private:
    int done_ = 0;
  };
  const auto paths = [&](Balance balance) {
    setup.model.switches.balance = balance;
    Bursts traffic;
    int used = 0;
    for (const Port& port : simulate(setup, traffic).ports) {
      used += port.packets > 0 && port.up && t.links[port.link].low.kind == End::Kind::kSwitch;
    }
    return used;
  };
  EXPECT_EQ(paths(Balance::kEcmp), 1);
  EXPECT_GE(paths(Balance::kFlowlet), 6);
}

TEST(Statistics, QueuesOverTimeAndUtilisation) {
  const Topology t = single_switch(3);
  sim::Setup setup = plain(t);
  setup.sample = 1us;
  const Result r = run(setup, incast(2, 100 * 4096));
  const Port& egress = r.ports[down_port(t.nics[0].link)];
  EXPECT_NEAR(egress.utilisation, 200.0 / (201 + 2000 / kPacketTime), 0.001);
  // A triangle: up to 99 packets in half the time, then down again.
  EXPECT_NEAR(egress.mean_queue, 0.5 * 99 * 4160 * egress.utilisation, 4160);
  EXPECT_EQ(egress.packets, 200u);
  EXPECT_EQ(r.utilisation_of_busiest, egress.utilisation);
  ASSERT_EQ(r.series.size(), 3u);
  EXPECT_EQ(r.series[0].port, down_port(t.nics[0].link));
  ASSERT_EQ(r.series[0].queue.size(), 68u);
  EXPECT_NEAR(r.series[0].rate[30], 100e9, 5e9);
  EXPECT_NEAR(r.series[0].queue[33], 97 * 4160, 4 * 4160);
  ASSERT_EQ(r.tiers.size(), 1u);
  EXPECT_EQ(r.tiers[0].queue.max, r.queue.max);
}

}  // namespace
}  // namespace megascale::sim
