#include "fabric_tools/sim/packet_set.h"

#include <gtest/gtest.h>

#include <set>

#include "fabric_tools/random.h"

namespace megascale::sim {
namespace {

TEST(PacketSet, HoldsWhatWasInsertedWithinItsWindow) {
  PacketSet set;
  EXPECT_FALSE(set.contains(5, 0));
  set.erase(5);
  set.insert(5, 0);
  set.insert(1000, 0);  // grows
  EXPECT_TRUE(set.contains(5, 0));
  EXPECT_TRUE(set.contains(1000, 0));
  EXPECT_FALSE(set.contains(6, 0));
  EXPECT_FALSE(set.contains(5 + 1024, 5));  // the same bit of the ring, another packet
}

TEST(PacketSet, IsASetWhileItsWindowMoves) {
  PacketSet set;
  std::set<uint32_t> model;
  Random random(1);
  uint32_t low = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t psn = low + random.below(1 + random.below(300));
    set.insert(psn, low);
    model.insert(psn);
    if (random.below(3) == 0) {
      set.erase(low);
      model.erase(low);
      ++low;
    }
    const uint32_t asked = low + random.below(600);
    ASSERT_EQ(set.contains(asked, low), model.contains(asked)) << asked << " at " << low;
  }
}

}  // namespace
}  // namespace megascale::sim
