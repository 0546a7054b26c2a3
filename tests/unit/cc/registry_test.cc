#include "cc/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace megascale {
namespace {

using Complaints = std::vector<std::string>;

TEST(Registry, EveryAlgorithmIsBuiltByItsNameWithItsDefaults) {
  ASSERT_FALSE(algorithms().empty());
  for (const Algorithm& a : algorithms()) {
    Complaints complaints;
    const auto controller = build_controller(a.name, {}, {}, &complaints);
    ASSERT_NE(controller, nullptr) << a.name;
    EXPECT_EQ(controller->name(), a.name);
    EXPECT_TRUE(complaints.empty()) << complaints[0];
    EXPECT_FALSE(a.sentence.empty());
  }
}

TEST(Registry, EveryParameterIsDocumentedAndItsDefaultIsInItsRange) {
  for (const Algorithm& a : algorithms()) {
    for (const Parameter& p : a.parameters) {
      EXPECT_FALSE(p.sentence.empty()) << a.name << "." << p.name;
      EXPECT_LE(p.least, p.fallback) << a.name << "." << p.name;
      EXPECT_GE(p.most, p.fallback) << a.name << "." << p.name;
    }
  }
}

TEST(Registry, AnUnknownNameIsRefusedWithTheNamesThatThereAre) {
  Complaints complaints;
  EXPECT_EQ(build_controller("warp\nspeed", {}, {}, &complaints), nullptr);
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find("'warp?speed'"), std::string::npos) << complaints[0];
  EXPECT_NE(complaints[0].find("fixed"), std::string::npos) << complaints[0];
}

TEST(Registry, AnUnknownParameterIsNamedAndTheOthersCount) {
  Complaints complaints;
  const auto c = build_controller("fixed", {{"rate", 1e9}, {"wondow", 1}}, {}, &complaints);
  ASSERT_NE(c, nullptr);
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find("wondow"), std::string::npos) << complaints[0];
  EXPECT_NE(complaints[0].find("window"), std::string::npos) << complaints[0];
  EXPECT_EQ(c->rate(), Rate::gigabits(1));
}

TEST(Registry, AValueOutOfRangeIsNamedWithTheRangeAndTheDefaultIsUsed) {
  for (const double wrong : {-1.0, 1e16, std::numeric_limits<double>::infinity(), std::nan("")}) {
    Complaints complaints;
    const auto c = build_controller("fixed", {{"rate", wrong}}, {}, &complaints);
    ASSERT_NE(c, nullptr);
    ASSERT_EQ(complaints.size(), 1u) << wrong;
    EXPECT_NE(complaints[0].find("0 to 1e+15 bit/s"), std::string::npos) << complaints[0];
    EXPECT_TRUE(c->rate().is_unlimited());
  }
}

TEST(Fixed, KeepsItsRateAndWindowWhateverItIsTold) {
  const auto c = build_controller("fixed", {{"rate", 5e9}, {"window", 65536}}, {}, nullptr);
  ASSERT_NE(c, nullptr);
  const Time now{1s};
  c->sent(now, 4096, 4096);
  c->ack({.now = now, .bytes = 4096, .rtt = 1ms, .ecn_marked = true});
  c->cnp(now);
  c->loss(now, 4096);
  c->timeout(now);
  c->telemetry({.now = now});
  c->tick(now);
  EXPECT_EQ(c->rate(), Rate::gigabits(5));
  EXPECT_EQ(c->window(), 65536u);
  EXPECT_EQ(c->next_tick(), kNever);
}

TEST(Fixed, IsAsFastAsThePortWhenNoRateIsAskedForAndNeverFaster) {
  const PathFacts port{.line_rate = Rate::gigabits(100)};
  EXPECT_EQ(build_controller("fixed", {}, port, nullptr)->rate(), Rate::gigabits(100));
  EXPECT_EQ(build_controller("fixed", {{"rate", 400e9}}, port, nullptr)->rate(), Rate::gigabits(100));
  EXPECT_EQ(build_controller("fixed", {}, port, nullptr)->window(), kNoWindow);
  EXPECT_TRUE(build_controller("fixed", {}, {}, nullptr)->rate().is_unlimited());
}

TEST(Units, ARateSaysHowLongBytesTake) {
  EXPECT_EQ(Rate::gigabits(8).time_for(1000), Duration(1000));
  EXPECT_EQ(Rate::unlimited().time_for(1 << 30), Duration(0));
}

}  // namespace
}  // namespace megascale
