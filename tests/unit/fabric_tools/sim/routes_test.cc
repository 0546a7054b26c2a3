#include "fabric_tools/sim/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric_tools/random.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<uint32_t> ports(const Routes& routes, uint32_t at, uint32_t nic) {
  const auto found = routes.ports(at, nic);
  return {found.begin(), found.end()};
}

uint32_t link_between(const Topology& t, uint32_t low, uint32_t high) {
  for (uint32_t l = 0; l < t.links.size(); ++l) {
    if (t.links[l].low == End{End::Kind::kSwitch, low} && t.links[l].high == End{End::Kind::kSwitch, high})
      return l;
  }
  return kNone;
}

TEST(Routes, UpByEveryPortAndDownByOne) {
  const Topology t = fat_tree(4);  // ToRs 0-7, aggregation 8-15, core 16-19
  const Routes routes(t);
  EXPECT_THAT(ports(routes, 0, 15), SizeIs(2));  // both aggregation switches
  EXPECT_THAT(ports(routes, 8, 15), SizeIs(2));  // both its cores
  EXPECT_THAT(ports(routes, 16, 15), ElementsAre(down_port(link_between(t, 14, 16))));
  EXPECT_THAT(ports(routes, 14, 15), ElementsAre(down_port(link_between(t, 7, 14))));
  EXPECT_THAT(ports(routes, 7, 15), ElementsAre(down_port(t.nics[15].link)));
  EXPECT_THAT(ports(routes, 8, 2), ElementsAre(down_port(link_between(t, 1, 8))));  // in the pod: not up
}

// Every choice brings a packet one link nearer, so that nothing goes round in circles.
TEST(Routes, EveryHopIsTowardsTheDestination) {
  for (const Topology& t : {fat_tree(4), leaf_spine(4, 3, 2), ring(5, 2), dumbbell(2, 2)}) {
    const Routes routes(t);
    Random random(3);
    for (uint32_t source = 0; source < t.nics.size(); ++source) {
      for (uint32_t nic = 0; nic < t.nics.size(); ++nic) {
        uint32_t at = t.links[t.nics[source].link].high.index;
        End end{End::Kind::kSwitch, at};
        for (int hops = 0; hops < 6 && end.kind == End::Kind::kSwitch; ++hops) {
          const auto found = routes.ports(end.index, nic);
          ASSERT_FALSE(found.empty());
          const uint32_t port = found[random.below(static_cast<uint32_t>(found.size()))];
          const Link& link = t.links[port / 2];
          end = port % 2 == 0 ? link.high : link.low;
        }
        EXPECT_EQ(end, (End{End::Kind::kNic, nic}));
      }
    }
  }
}

TEST(Routes, ALinkThatIsLeftOutIsUsedByNobodyWhoCanGoRoundIt) {
  const Topology t = leaf_spine(2, 2, 2);  // leaves 0, 1; spines 2, 3
  Routes routes(t);
  std::vector<bool> usable(t.links.size(), true);
  usable[link_between(t, 1, 3)] = false;
  routes.compute(usable);
  // Leaf 0 no longer sends for leaf 1 to spine 3, which could not go on without going up again.
  EXPECT_THAT(ports(routes, 0, 2), ElementsAre(up_port(link_between(t, 0, 2))));
  EXPECT_THAT(ports(routes, 3, 2), IsEmpty());
  usable[link_between(t, 1, 2)] = false;
  routes.compute(usable);
  EXPECT_THAT(ports(routes, 0, 2), IsEmpty());
  EXPECT_THAT(ports(routes, 1, 2), SizeIs(1));  // its own NIC
  usable[t.nics[2].link] = false;
  routes.compute(usable);
  EXPECT_THAT(ports(routes, 1, 2), IsEmpty());
}

TEST(Routes, RailsThatDoNotMeetHaveNoWay) {
  Builder b;
  b.add_switch("rail0", 0);
  b.add_switch("rail1", 0);
  for (const uint32_t rail : {0, 1, 0, 1}) b.add_nic(rail, Rate::gigabits(400), 1us);
  const Routes routes(b.topology);
  EXPECT_THAT(ports(routes, 0, 2), SizeIs(1));
  EXPECT_THAT(ports(routes, 0, 1), IsEmpty());
}

}  // namespace
}  // namespace megascale::sim
