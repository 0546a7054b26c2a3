// What NICs do: turns and pace, acknowledgements, recovery, CNPs, admission, what controllers are told.
#include "fabric_tools/sim/endpoints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <memory>
#include <numeric>
#include <vector>

#include "fabric_tools/sim/path.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

// What a controller was told, and answers that the test chooses.
struct Log {
  PathFacts facts;
  std::vector<Ack> acks;
  std::vector<Time> sent, cnps, ticks;
  std::vector<Bytes> inflight, losses;
  std::vector<std::vector<HopReport>> hops;
  int timeouts = 0;
  Rate rate = Rate::unlimited();
  Bytes window = kNoWindow;
  bool telemetry = false;
  Time next_tick = kNever;
  bool shrinks = false;  // to one packet, at the first acknowledgement
  bool crawls = false;   // after a timeout: a packet in 33 ms
};

class Spy final : public Controller {
 public:
  explicit Spy(Log& log) : log_(log) {}
  std::string_view name() const override { return "spy"; }
  bool wants_telemetry() const override { return log_.telemetry; }
  void sent(Time now, Bytes, Bytes inflight) override {
    log_.sent.push_back(now);
    log_.inflight.push_back(inflight);
  }
  void ack(const Ack& ack) override {
    log_.acks.push_back(ack);
    if (log_.shrinks) log_.window = 4096;
  }
  void cnp(Time now) override { log_.cnps.push_back(now); }
  void loss(Time, Bytes lost) override { log_.losses.push_back(lost); }
  void timeout(Time) override {
    ++log_.timeouts;
    if (log_.crawls) log_.rate = Rate::gigabits(0.001), log_.window = 1;
  }
  void telemetry(const Telemetry& t) override { log_.hops.emplace_back(t.hops.begin(), t.hops.end()); }
  void tick(Time now) override {
    log_.ticks.push_back(now);
    log_.next_tick = now + 10us;
  }
  Rate rate() const override { return log_.rate; }
  Bytes window() const override { return log_.window; }
  Time next_tick() const override { return log_.next_tick; }

 private:
  Log& log_;
};

// The first connection is watched; the others send as fast as they can.
void watch(Setup& setup, Log& log) {
  auto first = std::make_shared<bool>(true);
  setup.controllers = [&log, first](const PathFacts& facts) -> std::unique_ptr<Controller> {
    if (!*first) return build_controller("fixed", {}, facts, nullptr);
    *first = false;
    log.facts = facts;
    return std::make_unique<Spy>(log);
  };
}

TEST(Sender, TellsItsControllerWhatHappens) {
  const Topology t = fat_tree(4);
  sim::Setup setup = plain(t);
  setup.model.hosts.rtt_bias = -2us;
  Log log;
  watch(setup, log);
  run(setup, {{0, 15, 9 * 4096 + 100}});
  EXPECT_EQ(log.facts.line_rate, Rate::gigabits(100));
  EXPECT_EQ(log.facts.packet, 4096u);
  const Duration base = PathTimes(setup).base_rtt(0, 15);
  EXPECT_EQ(log.facts.base_rtt, base - 2us);
  ASSERT_EQ(log.sent.size(), 10u);
  EXPECT_EQ(log.sent[1] - log.sent[0], Duration(332));
  EXPECT_EQ(log.inflight[2], 3u * 4096);
}

// A ping-pong of one connection, so that all acknowledgements come back.
class Series final : public Traffic {
 public:
  Series(uint32_t source, uint32_t destination, std::vector<Bytes> messages, Duration gap = 100us)
      : source_(source), destination_(destination), messages_(std::move(messages)), gap_(gap) {}
  void begin(Wire& wire) override {
    const ConnectionId c = wire.connect(source_, destination_);
    for (size_t i = 0; i < messages_.size(); ++i) {
      wire.post(c, messages_[i], i, Time(static_cast<int64_t>(i) * gap_));
    }
  }
  void delivered(Wire&, const Delivery& d) override {
    EXPECT_EQ(d.tag, done_);
    ++done_;
  }
  bool finished() const override { return done_ == messages_.size(); }
  double progress() const override { return 0; }
  uint64_t connections() const override { return 1; }

 private:
  uint32_t source_, destination_;
  std::vector<Bytes> messages_;
  Duration gap_;
  size_t done_ = 0;
};

TEST(Sender, AcknowledgementsSayHowFarAndHowLong) {
  const Topology t = fat_tree(4);
  sim::Setup setup = plain(t);
  Log log;
  watch(setup, log);
  Series traffic(0, 15, {10'000, 0, 1});
  simulate(setup, traffic);
  ASSERT_EQ(log.acks.size(), 4u);
  EXPECT_EQ(log.acks[0].rtt, PathTimes(setup).base_rtt(0, 15));
  EXPECT_EQ(log.acks[0].bytes, 4096u);
  EXPECT_EQ(log.acks[0].sequence, 4096u);
  EXPECT_EQ(log.acks[2].sequence, 10'000u);
  EXPECT_EQ(log.acks[3].bytes, 0u);  // a message of no bytes is a packet
  EXPECT_EQ(log.acks[3].sequence, 10'000u);
  EXPECT_EQ(log.acks[0].hops, 5u);
  EXPECT_EQ(log.acks[0].remote_hold, 0ns);
}

TEST(Sender, KeepsToTheRate) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  Log log;
  log.rate = Rate::gigabits(10);
  watch(setup, log);
  const Result r = run(setup, {{0, 1, 100 * 4096}});
  for (size_t i = 1; i < log.sent.size(); ++i) {
    ASSERT_NEAR(static_cast<double>((log.sent[i] - log.sent[i - 1]).count()), 3328, 1);
  }
  EXPECT_NEAR(seconds(r.completion), 99 * 3.328e-6 + 2 * 0.3328e-6 + 2e-6, 1e-8);
}

TEST(Sender, KeepsToTheWindowAndUnderOnePacketToTheRate) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  Log log;
  log.window = 3 * 4096 + 100;
  watch(setup, log);
  run(setup, {{0, 1, 50 * 4096}});
  for (const Bytes inflight : log.inflight) EXPECT_LE(inflight, 3u * 4096);
  Log slow;
  slow.window = 1000;
  slow.rate = Rate::gigabits(1);
  watch(setup, slow);
  run(setup, {{0, 1, 10 * 4096}});
  for (size_t i = 1; i < slow.sent.size(); ++i) {
    EXPECT_NEAR(static_cast<double>((slow.sent[i] - slow.sent[i - 1]).count()), 33280, 1);
    EXPECT_EQ(slow.inflight[i], 4096u);
  }
}

TEST(Sender, HonoursTicks) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  Log log;
  log.next_tick = Time(5us);
  watch(setup, log);
  run(setup, {{0, 1, 1'000'000}});  // 82 us
  ASSERT_EQ(log.ticks.size(), 8u);
  EXPECT_EQ(log.ticks[0], Time(5us));
  EXPECT_EQ(log.ticks[7], Time(75us));
}

// Connections of a NIC share it packet by packet, whatever they have to send.
TEST(Nic, ConnectionsTakeTurns) {
  const Topology t = single_switch(4);
  Sends traffic({{0, 1, 400 * 4096}, {0, 2, 100 * 4096}, {0, 3, 100 * 4096}});
  EXPECT_TRUE(simulate(plain(t), traffic).finished);
  const double packet = 332.8;
  EXPECT_NEAR(static_cast<double>(traffic.delivered_at(1).time_since_epoch().count()),
              300 * packet + 2000 + packet, 3 * packet);
  EXPECT_NEAR(static_cast<double>(traffic.delivered_at(2).time_since_epoch().count()),
              300 * packet + 2000 + packet, 3 * packet);
}

TEST(Receiver, AcknowledgesEveryFewAndTheLastOfAMessage) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.hosts.ack_every = 4;
  Log log;
  watch(setup, log);
  Series traffic(0, 1, {10 * 4096, 1});
  simulate(setup, traffic);
  ASSERT_EQ(log.acks.size(), 3u);
  EXPECT_EQ(log.acks[0].bytes, 4u * 4096);
  EXPECT_EQ(log.acks[2].bytes, 2u * 4096);
}

// A window of fewer packets than are acknowledged at once, and one that shrinks under what is on its way.
TEST(Receiver, AnAcknowledgementIsNotOwedUntilTheTimeout) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.hosts.ack_every = 16;
  Log log;
  log.window = 3 * 4096;
  watch(setup, log);
  const Result small = run(setup, {{0, 1, 300 * 4096}});
  EXPECT_EQ(log.timeouts, 0);
  EXPECT_EQ(small.retransmitted, 0u);
  EXPECT_LT(small.completion, 100 * (PathTimes(setup).base_rtt(0, 1) + 1us));
  Log shrinks;
  shrinks.window = 40 * 4096;
  shrinks.shrinks = true;
  watch(setup, shrinks);
  run(setup, {{0, 1, 300 * 4096}});
  EXPECT_EQ(shrinks.timeouts, 0);
}

TEST(Receiver, ItsHostsDelayIsInTheRoundTripAndToldWhenAsked) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.hosts.delay = 3us;
  for (const bool told : {false, true}) {
    setup.model.hosts.remote_hold = told;
    Log log;
    watch(setup, log);
    Series traffic(0, 1, {4096, 1});
    simulate(setup, traffic);
    ASSERT_GE(log.acks.size(), 1u);
    EXPECT_EQ(log.acks[0].rtt, Duration(7676));
    EXPECT_EQ(log.acks[0].remote_hold, told ? 3us : 0ns);
  }
}

TEST(Receiver, JitterKeepsTheOrderAndHasItsMean) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.hosts.jitter = 10us;
  Log log;
  log.rate = Rate::gigabits(0.1);  // a packet every 333 us: no acknowledgement waits for another
  watch(setup, log);
  run(setup, {{0, 1, 2000 * 4096}});
  double sum = 0;
  for (size_t i = 0; i < log.acks.size(); ++i) {
    sum += static_cast<double>((log.acks[i].rtt - Duration(4676)).count());
    EXPECT_GE(log.acks[i].sequence, log.acks[i > 0 ? i - 1 : 0].sequence);
  }
  EXPECT_NEAR(sum / static_cast<double>(log.acks.size()), 10'000, 3 * 10'000 / std::sqrt(2000));
  Log fast;
  watch(setup, fast);
  run(setup, {{0, 1, 2000 * 4096}});
  for (size_t i = 1; i < fast.acks.size(); ++i) EXPECT_GE(fast.acks[i].sequence, fast.acks[i - 1].sequence);
}

// At line rate the slowest of thirty would hold up the others, were they kept in order.
TEST(Receiver, JitterOutOfOrderDelaysEachByItself) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.hosts.jitter = 10us;
  double mean[2] = {};
  for (const bool in_order : {false, true}) {
    setup.model.hosts.jitter_in_order = in_order;
    Log log;
    watch(setup, log);
    const Result r = run(setup, {{0, 1, 2000 * 4096}});
    EXPECT_EQ(r.retransmitted, 0u);
    double sum = 0;
    for (const Ack& ack : log.acks) sum += static_cast<double>((ack.rtt - Duration(4676)).count());
    mean[in_order] = sum / static_cast<double>(log.acks.size());
  }
  EXPECT_NEAR(mean[false], 10'000, 1'500);
  EXPECT_GT(mean[true], 25'000);
}

TEST(Receiver, CongestionIsToldByCnpsAtAnIntervalAndAfterADelay) {
  const Topology t = single_switch(3);
  sim::Setup setup = plain(t);
  setup.model.switches.ecn = {.on = true, .kmin = 1, .kmax = 1};
  setup.model.hosts.cnp = true;
  setup.model.hosts.cnp_interval = 10us;
  setup.model.hosts.cnp_delay = 7us;
  Log log;
  watch(setup, log);
  const Result r = run(setup, incast(2, 300 * 4096));
  ASSERT_GT(log.cnps.size(), 10u);
  for (size_t i = 1; i < log.cnps.size(); ++i) {
    EXPECT_GE(log.cnps[i] - log.cnps[i - 1], 10us - Duration(400));  // they may wait for a packet on the way
    EXPECT_LE(log.cnps[i] - log.cnps[i - 1], 12us);
  }
  EXPECT_GE(log.cnps[0], Time(7us + 4us));
  EXPECT_LE(log.cnps[0], Time(7us + 6us));
  EXPECT_GE(r.cnps, log.cnps.size());
  for (const Ack& ack : log.acks) EXPECT_FALSE(ack.ecn_marked);
}

TEST(Receiver, CongestionIsToldByMarkedAcknowledgements) {
  const Topology t = single_switch(3);
  sim::Setup setup = plain(t);
  setup.model.switches.ecn = {.on = true, .kmin = 1, .kmax = 1};
  Log log;
  watch(setup, log);
  const Result r = run(setup, incast(2, 300 * 4096));
  size_t marked = 0;
  for (const Ack& ack : log.acks) marked += ack.ecn_marked;
  EXPECT_GT(marked, log.acks.size() / 2);
  EXPECT_EQ(r.cnps, 0u);
}

TEST(Telemetry, IsStampedAtEachSwitchForThoseWhoWantIt) {
  const Topology t = fat_tree(4);
  sim::Setup setup = plain(t);
  Log log;
  log.telemetry = true;
  watch(setup, log);
  Series traffic(0, 15, {8 * 4096, 1});
  simulate(setup, traffic);
  ASSERT_GE(log.hops.size(), 8u);
  ASSERT_EQ(log.hops[0].size(), 5u);
  EXPECT_EQ(log.hops[0][0].capacity, Rate::gigabits(100));
  EXPECT_EQ(log.hops[0][0].transmitted, 4160u);
  EXPECT_EQ(log.hops[7][4].transmitted, 8u * 4160);
  EXPECT_EQ(log.hops[0][0].queue, 0u);
  for (size_t h = 1; h < 5; ++h) EXPECT_EQ(log.hops[0][h].at - log.hops[0][h - 1].at, Duration(1333));
  setup.model.switches.telemetry = false;
  Log without;
  without.telemetry = true;
  watch(setup, without);
  Series again(0, 15, {8 * 4096, 1});
  simulate(setup, again);
  EXPECT_TRUE(without.hops.empty());
}

// A buffer that takes few packets, without PFC: losses.
Setup lossy(const Topology& t, Recovery recovery) {
  sim::Setup setup = plain(t);
  setup.model.switches.pfc.on = false;
  setup.model.switches.buffer = 100'000;
  setup.model.hosts.recovery = recovery;
  return setup;
}

TEST(Recovery, BothKindsDeliverEverythingOnceAndSelectiveSendsLess) {
  const Topology t = single_switch(5);
  uint64_t again[2] = {};
  for (const Recovery recovery : {Recovery::kGoBackN, Recovery::kSelective}) {
    sim::Setup setup = lossy(t, recovery);
    setup.algorithm = "swift";
    const Result r = run(setup, incast(4, 2'000'000));
    EXPECT_TRUE(r.finished);
    EXPECT_EQ(r.delivered, 8'000'000u);
    EXPECT_EQ(r.messages, 4u);
    EXPECT_GT(r.dropped, 0u);
    EXPECT_GE(r.retransmitted, r.dropped);
    again[recovery == Recovery::kSelective] = r.retransmitted;
  }
  EXPECT_LT(again[1], again[0] / 2);
}

// A link that fails for the time of one or two packets, in the middle of many.
TEST(Recovery, ALossIsFoundWithoutATimeoutAndToldToTheController) {
  const Topology t = dumbbell(1, 1);
  for (const Recovery recovery : {Recovery::kGoBackN, Recovery::kSelective}) {
    sim::Setup setup = plain(t);
    setup.model.hosts.recovery = recovery;
    setup.model.switches.reroute = 1s;
    setup.model.faults = {{20us, Duration(500), "left", "right", 0}};
    Log log;
    log.window = 30 * 4096;
    watch(setup, log);
    const Result r = run(setup, {{0, 1, 200 * 4096}});
    ASSERT_FALSE(log.losses.empty());
    EXPECT_EQ(std::accumulate(log.losses.begin(), log.losses.end(), Bytes{0}), r.retransmitted * 4096);
    EXPECT_GT(r.dropped, 0u);
    EXPECT_EQ(log.timeouts, 0);
    for (const Bytes inflight : log.inflight) EXPECT_LE(inflight, 30u * 4096);
  }
}

// Random losses on a link that fails again and again: everything arrives, in order.
TEST(Recovery, MessagesArriveInOrderHoweverOftenTheLinkFails) {
  const Topology t = dumbbell(1, 1);
  for (const Recovery recovery : {Recovery::kGoBackN, Recovery::kSelective}) {
    for (const Balance balance : {Balance::kEcmp, Balance::kSpray}) {
      sim::Setup setup = plain(t);
      setup.model.hosts.recovery = recovery;
      setup.model.switches.balance = balance;
      setup.model.switches.reroute = 1s;
      for (int i = 0; i < 20; ++i) {
        setup.model.faults.push_back({i * 97us + 3us, Duration(500), "left", "right", 0});
      }
      Series traffic(0, 1, std::vector<Bytes>(200, 50'001), 5us);
      const Result r = simulate(setup, traffic);
      EXPECT_TRUE(r.finished);
      EXPECT_EQ(r.delivered, 200u * 50'001);
      EXPECT_GT(r.dropped, 0u);
    }
  }
}

TEST(Recovery, TimeoutsAdaptOrAreFixed) {
  const Topology t = dumbbell(1, 1);
  sim::Setup setup = plain(t);
  setup.model.switches.reroute = 1s;
  setup.model.faults = {{200us, 3ms, "left", "right", 0}};
  const double alone_us = seconds(PathTimes(setup).alone(0, 1, 5'000'000)) * 1e6;
  const double adaptive = seconds(run(setup, {{0, 1, 5'000'000}}).completion) * 1e6;
  EXPECT_GT(adaptive, alone_us + 3000 - 200);
  EXPECT_LT(adaptive, alone_us + 3000 + 1000);  // back within a millisecond of the repair
  setup.model.hosts.fixed_timeout = 20ms;
  const Result fixed = run(setup, {{0, 1, 5'000'000}});
  EXPECT_GT(seconds(fixed.completion) * 1e6, 20'000);
  EXPECT_EQ(fixed.timeouts, 1u);
}

// A controller that falls to a crawl at a timeout must not keep it from finding that the path is back.
TEST(Recovery, ATimeoutSendsOnePacketAtOnceWhateverThePace) {
  const Topology t = dumbbell(1, 1);
  sim::Setup setup = plain(t);
  setup.model.switches.reroute = 1s;
  setup.model.faults = {{200us, 3ms, "left", "right", 0}};
  setup.limit = 5ms;
  Log log;
  watch(setup, log);
  log.crawls = true;
  run(setup, {{0, 1, 5'000'000}});
  ASSERT_GT(log.timeouts, 3);
  const auto after = [&](Duration at) {
    return std::count_if(log.acks.begin(), log.acks.end(), [&](const Ack& a) { return a.now > Time(at); });
  };
  EXPECT_GE(after(3200us), 1);
  EXPECT_LE(log.acks.back().now, Time(4100us));
}

TEST(Admission, TheReceiverKeepsItsQueueShortAndItsLinkBusy) {
  const Topology t = single_switch(65);
  sim::Setup setup = plain(t);
  const Result all = run(setup, incast(64, 1'000'000));
  EXPECT_GT(all.pauses, 0u);
  setup.model.hosts.admission = 250'000;
  const Result admitted = run(setup, incast(64, 1'000'000));
  EXPECT_TRUE(admitted.finished);
  EXPECT_EQ(admitted.pauses, 0u);
  EXPECT_LT(admitted.queue.max, 300'000);
  EXPECT_LT(seconds(admitted.completion), 1.01 * seconds(all.completion));
  EXPECT_GT(admitted.jain, 0.9);
}

TEST(Admission, GrantsThatAreLostAreAskedForAgain) {
  const Topology t = dumbbell(1, 1);
  sim::Setup setup = plain(t);
  setup.model.hosts.admission = 100'000;
  setup.model.switches.reroute = 1s;
  for (int i = 0; i < 10; ++i) {
    setup.model.faults.push_back({i * 50us, 5us, "left", "right", 0});
  }
  Series traffic(0, 1, {1'000'000, 0, 1, 4096}, 30us);
  const Result r = simulate(setup, traffic);
  EXPECT_TRUE(r.finished);
  EXPECT_EQ(r.delivered, 1'004'097u);
}

// Two long flows that collide on one of two uplinks: with PLB one of them moves.
TEST(Plb, AFlowThatStaysCongestedTakesAnotherPath) {
  const Topology t = leaf_spine(2, 2, 2);
  sim::Setup setup = plain(t);
  setup.model.switches.ecn = {.on = true, .kmin = 20'000, .kmax = 20'000};
  setup.algorithm = "swift";
  const std::vector<Send> sends{{0, 2, 30'000'000}, {1, 3, 30'000'000}};
  for (setup.seed = 1;; ++setup.seed) {
    ASSERT_LT(setup.seed, 100u);
    if (run(setup, sends).slowdown.mean > 1.8) break;
  }
  setup.model.switches.balance = Balance::kPlb;
  EXPECT_LT(run(setup, sends).slowdown.mean, 1.5);
}

TEST(Connections, ThePlaceOfAClosedOneIsUsedAgain) {
  // Each delivery opens the next connection; packets and timers of the old ones are still about.
  class Relay final : public Traffic {
   public:
    void begin(Wire& wire) override { next(wire); }
    void delivered(Wire& wire, const Delivery& d) override {
      most_ = std::max(most_, d.connection);
      wire.close(d.connection);
      ++done_;
      if (done_ < 500) next(wire);
    }
    bool finished() const override { return done_ == 500; }
    double progress() const override { return 0; }
    uint64_t connections() const override { return 1; }
    ConnectionId most_ = 0;

   private:
    void next(Wire& wire) { wire.post(wire.connect(done_ % 3, 3), 20'000, 0, Time{}); }
    uint32_t done_ = 0;
  };
  const Topology t = single_switch(4);
  sim::Setup setup = plain(t);
  setup.algorithm = "dcqcn";
  setup.model.hosts.jitter = 2us;
  setup.model.hosts.least_timeout = 5us;
  Relay traffic;
  const Result r = simulate(setup, traffic);
  EXPECT_TRUE(r.finished);
  EXPECT_EQ(traffic.most_, 0u);
  EXPECT_EQ(r.messages, 500u);
}

}  // namespace
}  // namespace megascale::sim
