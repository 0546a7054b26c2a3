#include "fabric_tools/sim/headroom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Bytes kPacket = 4160;

// 2 x 1 us x 12.5 GB/s + 2 packets + the frame + 16 quanta of 64 bytes.
TEST(Headroom, IsWhatAPauseTakesToWork) {
  EXPECT_EQ(headroom_needed({Rate::gigabits(100), 1us, 0ns, kPacket}), 25'000 + 2 * kPacket + 64 + 1024);
  EXPECT_EQ(headroom_needed({Rate::gigabits(400), 500ns, 250ns, kPacket}), 62'500 + 2 * kPacket + 64 + 1024);
}

TEST(Headroom, LessThanIsSafeIsRefusedWithWhatIsNeededOrLosesWhereItIsWanted) {
  const Topology t = single_switch(3);
  sim::Setup setup = plain(t);
  setup.model.switches.buffer = 100'000;
  setup.model.switches.pfc.headroom = 34'407;
  const auto simulated = [&] { return run(setup, incast(2, 500'000)); };
  EXPECT_THAT(complaint(simulated), AllOf(HasSubstr("34408"), HasSubstr("host0/0")));
  setup.model.switches.pfc.headroom = 34'408;
  EXPECT_EQ(simulated().dropped, 0u);
  setup.model.switches.pfc.headroom = kPacket;
  setup.model.switches.pfc.unsafe_headroom = true;
  EXPECT_GT(simulated().dropped, 0u);
}

}  // namespace
}  // namespace megascale::sim
