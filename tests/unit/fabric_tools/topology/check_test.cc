#include "fabric_tools/topology/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fabric_tools/topology/generate.h"
#include "fabric_tools/topology/sets.h"
#include "tests/unit/complaint.h"

namespace megascale {
namespace {

using testing::HasSubstr;

// 6 servers with 2 NICs in 2 sets of 3, under one spine: tor-0-0, tor-0-1, tor-1-0, tor-1-1, spine-0.
Topology sound() {
  return build_clos(
      {.hosts = 6,
       .nics = 2,
       .tiers = {{.name = "tor", .rate = Rate::gigabits(200), .delay = 1us, .groups = 3, .up = 1},
                 {.name = "spine", .rate = Rate::gigabits(400), .delay = 1us}}});
}

uint32_t link_of(const Topology& t, uint32_t host, uint32_t rail) {
  return t.nics[t.hosts[host].first_nic + rail].link;
}

std::string check_complaint(Topology t) {
  return complaint([&] { check(t); });
}

// As if nobody had said which ToR is of which set.
Topology forgotten(Topology t) {
  for (Switch& s : t.switches) s.set = s.pod = kNone;
  find_sets(t);
  find_pods(t);
  return t;
}

TEST(Check, AcceptsASoundFabric) {
  EXPECT_EQ(check_complaint(sound()), "accepted");
  EXPECT_EQ(check_complaint(forgotten(sound())), "accepted");
}

TEST(Check, NamesBothEndsOfASwappedCable) {
  Topology t = sound();
  std::swap(t.links[link_of(t, 1, 0)].high, t.links[link_of(t, 1, 1)].high);
  const std::string why = check_complaint(t);
  EXPECT_THAT(why, HasSubstr("NIC host-2/0 hangs on tor-0-1, where rail 0 of its set hangs on tor-0-0"));
  EXPECT_THAT(why, HasSubstr("NIC host-2/1 hangs on tor-0-0"));
}

TEST(Check, ACableIntoAnotherSetDoesNotJoinTheSets) {
  Topology t = sound();
  t.links[link_of(t, 1, 1)].high.index = 3;  // tor-1-1
  t = forgotten(t);
  EXPECT_EQ(t.sets, 2u);
  EXPECT_THAT(check_complaint(t),
              HasSubstr("NIC host-2/1 hangs on tor-1-1, where rail 1 of its set hangs on tor-0-1"));
}

TEST(Check, UnequalSetsAreRefusedOrNoted) {
  Topology t = sound();
  for (uint32_t rail = 0; rail < 2; ++rail) t.links[link_of(t, 2, rail)].high.index = 2 + rail;
  EXPECT_THAT(check_complaint(t), HasSubstr("set 0 has 2 hosts, set 1 has 4"));
  check(t, Sets::kAny);
  ASSERT_EQ(t.notes.size(), 1u);
  EXPECT_THAT(t.notes[0], HasSubstr("unequal"));
}

TEST(Check, NamesAPairWithoutAWay) {
  Topology t = sound();
  t.switches.push_back({"spine-1", 1, kNone, 0});
  for (Link& link : t.links) {
    if (link.low.kind == End::Kind::kSwitch && link.low.index >= 2) link.high.index = 5;
  }
  EXPECT_THAT(check_complaint(t), HasSubstr("there is no way from host-1/0 to host-4/0"));
}

TEST(Check, AWayThatGoesDownAndUpAgainIsNone) {
  // a - tor-0 - spine-0 - tor-1 - spine-1 - tor-2 - c: connected, but nothing lies above tor-0 and tor-2.
  Topology t{.name = "valley", .tiers = 2};
  for (uint32_t i = 0; i < 3; ++i) {
    t.hosts.push_back({std::string(1, static_cast<char>('a' + i)), i, 1});
    t.nics.push_back({i, 0, i});
    t.switches.push_back({"tor-" + std::to_string(i), 0, i, 0});
    t.links.push_back({{End::Kind::kNic, i}, {End::Kind::kSwitch, i}, Rate::gigabits(100), 1us});
  }
  t.switches.push_back({"spine-0", 1, kNone, 0});
  t.switches.push_back({"spine-1", 1, kNone, 0});
  const auto join = [&](uint32_t low, uint32_t high) {
    t.links.push_back({{End::Kind::kSwitch, low}, {End::Kind::kSwitch, high}, Rate::gigabits(100), 1us});
  };
  join(0, 3), join(1, 3), join(1, 4), join(2, 4);
  EXPECT_THAT(check_complaint(t), HasSubstr("no way from a/0 to c/0"));
  join(0, 4);
  EXPECT_EQ(check_complaint(t), "accepted");
}

TEST(Check, RefusesAbsurdLinks) {
  const auto with = [](auto change) {
    Topology t = sound();
    change(t.links[0]);
    return check_complaint(t);
  };
  EXPECT_THAT(with([](Link& l) { l.rate = Rate{0}; }), HasSubstr("rate of 0 bit/s"));
  EXPECT_THAT(with([](Link& l) { l.rate = Rate{-1e9}; }), HasSubstr("1M to 100T"));
  EXPECT_THAT(with([](Link& l) { l.rate = Rate{std::numeric_limits<double>::quiet_NaN()}; }),
              HasSubstr("1M to 100T"));
  EXPECT_THAT(with([](Link& l) { l.delay = -1ns; }), HasSubstr("delay of -1 ns"));
  EXPECT_THAT(with([](Link& l) { l.delay = 2s; }), HasSubstr("0 to 1 s"));
}

TEST(Check, RefusesLinksThatDoNotLeadUpward) {
  Topology t = sound();
  t.links.back().high.index = 0;
  EXPECT_THAT(check_complaint(t), HasSubstr("does not lead upward"));
}

TEST(Check, RefusesLooseEndsAndNamesGivenTwice) {
  Topology t = sound();
  t.switches.push_back({"lonely", 1, kNone, kNone});
  EXPECT_THAT(check_complaint(t), HasSubstr("switch lonely has no links"));
  t = sound();
  t.links.push_back(t.links[0]);
  EXPECT_THAT(check_complaint(t), HasSubstr("NIC host-1/0 has 2 links"));
  t = sound();
  t.hosts[1].name = "host-1";
  EXPECT_THAT(check_complaint(t), HasSubstr("host `host-1`: the name is given twice"));
  t = sound();
  t.hosts[1].name = "a/b";
  EXPECT_THAT(check_complaint(t), HasSubstr("`a/b`: a name has letters"));
  t.hosts[1].name = "n\xff";  // what no TOML file can hold
  EXPECT_THAT(check_complaint(t), HasSubstr("`n?`: a name has letters"));
}

TEST(Check, TellsAFewOfMany) {
  Topology t = sound();
  for (Link& link : t.links) link.rate = Rate{0};
  EXPECT_THAT(check_complaint(t), HasSubstr("and 13 more like these"));
}

}  // namespace
}  // namespace megascale
