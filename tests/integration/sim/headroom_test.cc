// Scenario 10: how much headroom keeps packets from being lost, how pauses travel, and what a cycle of them
// does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fabric_tools/sim/headroom.h"
#include "tests/integration/sim/streams.h"
#include "tests/integration/sim/validation.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

// One host sends over a link to a receiver that takes next to nothing, so that what comes after the pause can
// only go into the headroom; another sends back over that link, so that the pause frame has to wait for a
// packet of its. When that began is varied: the worst moment counts.
bool loses_with(Bytes headroom) {
  Builder b;
  b.add_switch("left", 0);
  b.add_switch("right", 0);
  b.add_nic(0, Rate::gigabits(100), 1us);
  b.add_nic(0, Rate::gigabits(100), 1us);
  b.add_nic(1, Rate::gigabits(0.01), 1us);
  b.add_nic(1, Rate::gigabits(100), 1us);
  b.join(0, 1, Rate::gigabits(100), 1us);
  for (int64_t offset = 0; offset < 333; offset += 11) {
    sim::Setup setup = preset_on(b.topology, "fixed");
    setup.model.switches.buffer = 1'000'000;
    setup.model.switches.pfc.headroom = headroom;
    setup.model.switches.pfc.unsafe_headroom = true;
    setup.limit = 30us;
    Streams streams({{0, 2, {}}, {3, 1, Time(Duration(offset))}}, 1ms);
    const Result r = simulate(setup, streams);
    EXPECT_GE(r.pauses, 1u);
    if (r.dropped > 0) return true;
  }
  return false;
}

TEST(Headroom, Scenario10LossesBeginWithinAPacketOfTheCalculatedSize) {
  const Bytes calculated = headroom_needed({Rate::gigabits(100), 1us, 0ns, 4160});
  // 2 x 1 us x 100 Gb/s = 25,000; two packets 8,320; the frame 64; the response 16 x 64 bytes.
  EXPECT_EQ(calculated, 25'000u + 8'320 + 64 + 1'024);
  EXPECT_FALSE(loses_with(calculated));
  Bytes lossy = 0, safe = calculated;
  while (safe - lossy > 1) {
    const Bytes middle = (lossy + safe) / 2;
    (loses_with(middle) ? lossy : safe) = middle;
  }
  show("scenario 10: headroom below which packets are lost, bytes", static_cast<double>(safe),
       fmt::format("{} to {}", calculated - 4160, calculated));
  EXPECT_GE(safe + 4160, calculated);
}

// A chain of four switches towards a receiver that takes next to nothing, so that nobody is let go meanwhile.
struct Chain {
  Topology topology;
  Chain() {
    Builder b;
    for (uint32_t i = 0; i < 4; ++i) b.add_switch("s" + std::to_string(i), i);
    b.add_nic(0, Rate::gigabits(100), 1us);
    b.add_nic(3, Rate::gigabits(0.01), 1us);
    for (uint32_t i = 0; i < 3; ++i) b.join(i, i + 1, Rate::gigabits(100), 1us);
    topology = b.topology;
  }
};

// When the switch of that tier first asks for a pause: the shortest run in which it does.
double first_pause(const Topology& t, uint32_t tier) {
  int64_t before = 0, after = 1'000'000;
  while (after - before > 1) {
    const int64_t middle = (before + after) / 2;
    sim::Setup setup = preset_on(t, "fixed");
    setup.model.switches.buffer = 1'000'000;
    setup.limit = Duration(middle);
    Streams streams({{0, 1, {}}}, 1ms);
    (simulate(setup, streams).tiers[tier].pauses > 0 ? after : before) = middle;
  }
  return static_cast<double>(after) * 1e-9;
}

// A switch asks for a pause when its buffer holds alpha (B - x) = x bytes, B/9 = 111,111 here. That fills
// with what comes in, at C; the last switch passes nothing on. Then the frame goes back over the link, the
// port responds, and the switch before it begins to fill.
TEST(Headroom, Scenario10APauseTravelsAsBuffersFill) {
  const Chain chain;
  const double rate = 12.5e9, packet = 4160 / rate, delay = 1e-6;
  const double threshold = 1e6 / 8 / (1 + 1.0 / 8);
  const double response = kPauseFrame / rate + kPauseResponseQuanta * 64 / rate;
  double expected = 4 * (packet + delay) + packet;  // the first packet is through, and takes the last link
  for (uint32_t tier = 4; tier-- > 0;) {
    expected += threshold / rate;
    const double seen = first_pause(chain.topology, tier);
    show(fmt::format("scenario 10: first pause of switch {}, us", tier), seen * 1e6,
         fmt::format("{:.2f} +- 0.33", expected * 1e6));
    EXPECT_NEAR(seen, expected, packet);
    expected += delay + response;
  }
}

// Five switches in a ring, each with traffic to the one after next: each link's buffer waits for the next
// one's.
Result cycle(Duration watchdog) {
  const Topology t = ring(5, 2);
  sim::Setup setup = preset_on(t, "fixed");
  setup.model.switches.buffer = 300'000;
  setup.model.switches.pfc.watchdog = watchdog;
  setup.limit = 100ms;
  std::vector<Send> sends;
  for (uint32_t s = 0; s < 5; ++s) {
    for (uint32_t n = 0; n < 2; ++n) sends.push_back({2 * s + n, 2 * ((s + 2) % 5) + n, 400'000});
  }
  Sends traffic(sends);
  return simulate(setup, traffic);
}

TEST(Headroom, Scenario10ACycleOfBuffersDeadlocksAndTheWatchdogClearsIt) {
  const Result stuck = cycle(0s);
  EXPECT_TRUE(stuck.deadlock);
  EXPECT_FALSE(stuck.finished);
  EXPECT_EQ(stuck.dropped, 0u);
  const Result cleared = cycle(1ms);
  show("scenario 10: ring of 5 with a watchdog of 1 ms ends after, ms", seconds(cleared.completion) * 1e3,
       "> 1");
  show("    watchdogs", static_cast<double>(cleared.watchdogs), ">= 1");
  EXPECT_TRUE(cleared.deadlock);
  EXPECT_TRUE(cleared.finished);
  EXPECT_GE(cleared.watchdogs, 1u);
  EXPECT_GT(cleared.dropped, 0u);
}

}  // namespace
}  // namespace megascale::sim
