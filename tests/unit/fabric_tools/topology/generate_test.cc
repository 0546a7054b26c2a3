#include "fabric_tools/topology/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "fabric_tools/topology/check.h"
#include "fabric_tools/topology/reach.h"
#include "tests/unit/complaint.h"

namespace megascale {
namespace {

using testing::HasSubstr;

// 8 servers with 4 NICs: 4 sets of 2, 2 pods, uplinks twice as fast as downlinks, 1:1 everywhere.
ClosShape small_clos() {
  return {
      .name = "small",
      .hosts = 8,
      .nics = 4,
      .tiers = {{.name = "tor", .ports = 2, .split = 2, .rate = Rate::gigabits(200), .groups = 2, .up = 1},
                {.name = "agg", .ports = 16, .rate = Rate::gigabits(400), .groups = 2, .up = 8},
                {.name = "core", .ports = 16, .rate = Rate::gigabits(400)}}};
}

struct Degrees {
  uint32_t down = 0, up = 0;
  double rate_down = 0, rate_up = 0;
};

std::vector<Degrees> degrees(const Topology& t) {
  std::vector<Degrees> all(t.switches.size());
  for (const Link& link : t.links) {
    ++all[link.high.index].down;
    all[link.high.index].rate_down += link.rate.bits_per_second;
    if (link.low.kind == End::Kind::kNic) continue;
    ++all[link.low.index].up;
    all[link.low.index].rate_up += link.rate.bits_per_second;
  }
  return all;
}

std::string clos_complaint(const ClosShape& shape) {
  return complaint([&] { build_clos(shape); });
}

TEST(Clos, HasAsMuchBandwidthUpAsDownInEachTier) {
  const Topology t = build_clos(small_clos());
  const std::vector<Degrees> d = degrees(t);
  for (uint32_t i = 0; i < t.switches.size(); ++i) {
    if (t.switches[i].tier + 1 < t.tiers) {
      EXPECT_EQ(d[i].rate_up, d[i].rate_down) << t.switches[i].name;
    }
    EXPECT_GT(d[i].down, 0u) << t.switches[i].name;
  }
  EXPECT_EQ(t.sets, 4u);
  EXPECT_EQ(t.pods, 2u);
}

TEST(Clos, PutsEachRailOfASetOnAToROfItsOwn) {
  const Topology t = build_clos(small_clos());
  std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> tors;
  for (const Nic& nic : t.nics) {
    const End tor = t.links[nic.link].high;
    EXPECT_EQ(t.switches[tor.index].set, nic.host / 2);
    tors[{nic.host / 2, nic.rail}].insert(tor.index);
  }
  std::set<uint32_t> all;
  for (const auto& [rail, on] : tors) {
    EXPECT_EQ(on.size(), 1u);
    all.insert(*on.begin());
  }
  EXPECT_EQ(all.size(), 16u);
}

TEST(Clos, MeetsAsHighAsTheHostsAreApart) {
  const Topology t = build_clos(small_clos());
  const Reach reach(t);
  const auto nic = [&](uint32_t host, uint32_t rail) { return t.hosts[host].first_nic + rail; };
  EXPECT_EQ(reach.tier(nic(0, 1), nic(1, 1)), 0u);  // a set and a rail in common
  EXPECT_EQ(reach.tier(nic(0, 1), nic(1, 2)), 1u);  // another rail
  EXPECT_EQ(reach.tier(nic(0, 1), nic(2, 1)), 1u);  // another set of the pod
  EXPECT_EQ(reach.tier(nic(0, 1), nic(4, 1)), 2u);  // another pod
}

TEST(Clos, SpreadsCablesOverFewerSwitchesWhenTold) {
  ClosShape shape = small_clos();
  shape.tiers[2].switches = 2;
  const Topology t = build_clos(shape);
  const std::vector<Degrees> d = degrees(t);
  uint32_t cores = 0;
  for (uint32_t i = 0; i < t.switches.size(); ++i) {
    if (t.switches[i].tier != 2) continue;
    ++cores;
    EXPECT_EQ(d[i].down, 2u * 8 / 2);  // pods x cables up / switches
  }
  EXPECT_EQ(cores, 2u);
}

TEST(Clos, RailsThatDoNotMeetHaveNoWayBetweenThem) {
  ClosShape shape = small_clos();
  shape.rails_meet = false;
  shape.tiers.pop_back();
  shape.tiers[1].groups = 0;
  shape.tiers[1].up = 0;
  Topology t = build_clos(shape);
  check(t);
  const Reach reach(t);
  EXPECT_EQ(reach.tier(t.hosts[0].first_nic, t.hosts[7].first_nic), 1u);
  EXPECT_EQ(reach.tier(t.hosts[0].first_nic, t.hosts[7].first_nic + 1), kNone);
}

TEST(Clos, RefusesNumbersThatDoNotFitTogether) {
  ClosShape s = small_clos();
  s.hosts = 9;
  EXPECT_THAT(clos_complaint(s), HasSubstr("9 hosts are no multiple of the 2"));
  s = small_clos();
  s.tiers[0].ports = 1;
  EXPECT_THAT(clos_complaint(s), HasSubstr("need 2 ports of a switch, which has 1"));
  s = small_clos();
  s.tiers[1].ports = 15;
  EXPECT_THAT(clos_complaint(s), HasSubstr("tier `agg`: 8 cables down"));
  s = small_clos();
  s.tiers[1].groups = 3;
  EXPECT_THAT(clos_complaint(s), HasSubstr("4 groups below are no multiple of 3"));
  s = small_clos();
  s.tiers[2].groups = 1;
  EXPECT_THAT(clos_complaint(s), HasSubstr("the top one, but joins 1 of the 2"));
  s = small_clos();
  s.tiers[2].switches = 3;
  EXPECT_THAT(clos_complaint(s), HasSubstr("cannot be spread evenly over 3"));
  s = small_clos();
  s.tiers[2].up = 1;
  EXPECT_THAT(clos_complaint(s), HasSubstr("no cables go up"));
  s = small_clos();
  s.tiers[1].up = 0;
  EXPECT_THAT(clos_complaint(s), HasSubstr("needs `up`"));
}

TEST(Clos, IsRefusedByAnEstimateWhenItWouldNotFitIntoMemory) {
  ClosShape shape = small_clos();
  shape.hosts = 1'000'000'000;
  EXPECT_THAT(clos_complaint(shape), HasSubstr("GB of memory"));
  shape = small_clos();
  shape.tiers[1].up = shape.tiers[1].ports = 65'536;  // 2 pods x 1 x 65,536 cores, and as many above
  shape.tiers.insert(shape.tiers.begin() + 2, shape.tiers[1]);
  EXPECT_THAT(clos_complaint(shape), HasSubstr("GB of memory"));
}

TEST(FatTree, HasTheCountsOfThePaper) {
  Topology t = build_clos(fat_tree(8, Rate::gigabits(100), 1us));
  check(t);
  EXPECT_EQ(t.hosts.size(), 128u);
  EXPECT_EQ(t.switches.size(), 32u + 32 + 16);
  EXPECT_EQ(t.links.size(), 3u * 128);
  for (const Degrees& d : degrees(t)) EXPECT_EQ(d.down + d.up, 8u);
  EXPECT_THROW(fat_tree(7, Rate::gigabits(100), 1us), std::invalid_argument);
}

TEST(Dumbbell, HasOneCableInTheMiddle) {
  Topology t = build_dumbbell({.left = 3,
                               .right = 2,
                               .host_rate = Rate::gigabits(100),
                               .rate = Rate::gigabits(50),
                               .host_delay = 1us,
                               .delay = 5us});
  check(t, Sets::kAny);
  EXPECT_EQ(t.links.size(), 6u);
  const Reach reach(t);
  EXPECT_EQ(reach.tier(0, 2), 0u);
  EXPECT_EQ(reach.tier(3, 4), 0u);
  EXPECT_EQ(reach.tier(0, 4), 1u);
}

}  // namespace
}  // namespace megascale
