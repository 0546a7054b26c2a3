#include "fabric_tools/lab/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

namespace megascale::lab {
namespace {

TEST(Plan, SpreadsRanksEvenlyAndInOrder) {
  Plan plan({.hosts = 3, .rails = 1, .ranks = 7}, Kind::namespaces, 42);
  std::vector<int> hosts, locals;
  for (const Rank& rank : plan.ranks()) hosts.push_back(rank.host), locals.push_back(rank.local_rank);
  EXPECT_EQ(hosts, (std::vector<int>{0, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(locals, (std::vector<int>{0, 1, 2, 0, 1, 0, 1}));
}

TEST(Plan, NoTwoRailsOfAnyTwoHostsShareAnAddress) {
  Plan plan({.hosts = 200, .rails = 16, .ranks = 200}, Kind::namespaces, 42);
  std::set<std::string> seen;
  for (int host = 0; host < 200; ++host) {
    for (int rail = 0; rail < 16; ++rail) EXPECT_TRUE(seen.insert(plan.address(host, rail)).second);
  }
  EXPECT_EQ(plan.address(0, 0), "10.1.0.1");
  EXPECT_EQ(plan.address(199, 15), "10.16.0.200");
}

TEST(Plan, TwoHostsAreJoinedByCablesMoreBySwitches) {
  using Ends = std::vector<std::pair<std::string, std::string>>;
  Plan two({.hosts = 2, .rails = 2, .ranks = 2}, Kind::namespaces, 42);
  EXPECT_EQ(two.cable_ends(1, 1), (Ends{{"megascale-42-host1", "rail1"}, {"megascale-42-host0", "rail1"}}));
  EXPECT_EQ(two.namespaces().size(), 2u);
  Plan three({.hosts = 3, .rails = 2, .ranks = 3}, Kind::namespaces, 42);
  EXPECT_EQ(three.cable_ends(2, 1),
            (Ends{{"megascale-42-host2", "rail1"}, {"megascale-42-switches", "h2r1"}}));
  EXPECT_EQ(three.namespaces().size(), 4u);
}

TEST(Plan, NamesFitTheKernelsLimitOfFifteenBytes) {
  Plan plan({.hosts = 200, .rails = 16, .ranks = 200}, Kind::namespaces, 4194304);
  EXPECT_LE(plan.switch_port(199, 15).size(), 15u);
  EXPECT_LE(plan.interface(15).size(), 15u);
}

TEST(Plan, EnvironmentIsTheLaunchContract) {
  Plan plan({.hosts = 2, .rails = 2, .ranks = 4}, Kind::namespaces, 42);
  std::map<std::string, std::string> environment;
  for (auto& [name, value] : plan.environment(plan.ranks()[3])) environment[name] = value;
  EXPECT_EQ(environment["MEGASCALE_RANK"], "3");
  EXPECT_EQ(environment["MEGASCALE_RANKS"], "4");
  EXPECT_EQ(environment["MEGASCALE_LOCAL_RANK"], "1");
  EXPECT_EQ(environment["MEGASCALE_RENDEZVOUS"], "10.1.0.1:29500");
  EXPECT_EQ(environment["MEGASCALE_RAILS"], "10.1.0.2,10.2.0.2");
}

TEST(Plan, LoopbackHasNoNamespacesAndNoCables) {
  Plan plan({.hosts = 2, .rails = 3, .ranks = 2}, Kind::loopback, 42, "127.0.0.1:1");
  EXPECT_TRUE(plan.namespaces().empty());
  EXPECT_TRUE(plan.cable_ends(0, 0).empty());
  EXPECT_EQ(plan.address(1, 2), "127.0.0.3");
}

TEST(Plan, RefusesImpossibleShapes) {
  EXPECT_THROW(Plan({.hosts = 0, .rails = 1, .ranks = 1}, Kind::namespaces, 1), std::invalid_argument);
  EXPECT_THROW(Plan({.hosts = 201, .rails = 1, .ranks = 1}, Kind::namespaces, 1), std::invalid_argument);
  EXPECT_THROW(Plan({.hosts = 1, .rails = 17, .ranks = 1}, Kind::namespaces, 1), std::invalid_argument);
  EXPECT_THROW(Plan({.hosts = 1, .rails = 1, .ranks = -1}, Kind::namespaces, 1), std::invalid_argument);
}

}  // namespace
}  // namespace megascale::lab
