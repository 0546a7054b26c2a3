#include "fabric_tools/sim/headroom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

constexpr Bytes kPacket = 4160;

// 2 x 1 us x 12.5 GB/s + 2 packets + the frame + 16 quanta of 64 bytes.
TEST(Headroom, IsWhatAPauseTakesToWork) {
  EXPECT_EQ(headroom_needed({Rate::gigabits(100), 1us, 0ns, kPacket}), 25'000 + 2 * kPacket + 64 + 1024);
  EXPECT_EQ(headroom_needed({Rate::gigabits(400), 500ns, 250ns, kPacket}), 62'500 + 2 * kPacket + 64 + 1024);
}

// A queue that hardly drains, filled at line rate, while the other direction is busy too, so that the pause
// frame has to wait.
Result fill(Bytes headroom, Duration phase) {
  Topology t = dumbbell(2, 2);
  t.links[t.nics[2].link].rate = Rate::gigabits(1);
  sim::Setup setup = plain(t);
  setup.model.switches.buffer = 1'000'000;
  setup.model.switches.pfc.headroom = headroom;
  setup.model.switches.pfc.unsafe_headroom = true;
  setup.limit = 400us;
  Sends traffic({{0, 2, 10'000'000}, {3, 1, 10'000'000, Time(phase)}});
  return simulate(setup, traffic);
}

uint64_t drops(Bytes headroom) {
  uint64_t sum = 0;
  for (Duration phase = 0ns; phase < 333ns; phase += 20ns) sum += fill(headroom, phase).dropped;
  return sum;
}

TEST(Headroom, DropsStartWithinAPacketOfTheCalculatedSize) {
  const Bytes needed = headroom_needed({Rate::gigabits(100), 1us, 0ns, kPacket});
  EXPECT_GT(fill(needed, 0ns).pauses, 0u);
  EXPECT_EQ(drops(needed), 0u);
  EXPECT_GT(drops(needed - kPacket), 0u);
}

TEST(Headroom, LessThanIsSafeIsRefusedWithWhatIsNeeded) {
  const Topology t = single_switch(2);
  sim::Setup setup = plain(t);
  setup.model.switches.pfc.headroom = 20'000;
  Sends traffic({{0, 1, 1}});
  try {
    simulate(setup, traffic);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("34408"));
    EXPECT_THAT(e.what(), testing::HasSubstr("host0/0"));
  }
  setup.model.switches.pfc.unsafe_headroom = true;
  EXPECT_TRUE(simulate(setup, traffic).finished);
}

}  // namespace
}  // namespace megascale::sim
