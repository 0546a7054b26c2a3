// The matrix, its table and its document, and the report: over real simulations of a few microseconds.
#include "fabric_tools/sim/runs/comparison.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fabric_tools/sim/runs/html.h"
#include "fabric_tools/sim/runs/summary.h"
#include "fabric_tools/sim/runs/table.h"
#include "fabric_tools/topology/write.h"
#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/sim/runs/well_formed.h"
#include "tests/unit/fabric_tools/sim/traffic/fake_wire.h"

namespace megascale::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Compare : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "cc");
    std::ofstream(folder_ / "cc/full.toml") << "algorithm = \"fixed\"\nsource = \"test\"\n";
    std::ofstream(folder_ / "cc/half.toml")
        << "algorithm = \"fixed\"\nsource = \"test\"\n[parameters]\nrate = 50e9\n";
    std::ofstream(topology_) << explicit_toml(small_topology(4, 2));
    matrix_.topologies = {topology_};
    matrix_.presets = folder_ / "cc";
    matrix_.traffic = {"permutation:100KB", "incast:5:20KB+victim:from=6:to=2"};
    matrix_.cc = {"full", "half"};
    matrix_.seeds = {1, 2, 3};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Comparison compared(unsigned jobs) {
    Comparison comparison = prepare(matrix_, never_);
    run(comparison, jobs, never_, [](const Doing&) {});
    return comparison;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("compare_test_" + std::to_string(getpid()));
  std::string topology_ = folder_ / "t.toml";
  Matrix matrix_;
  std::atomic<bool> never_ = false;
};

const Column& column(const std::vector<Column>& list, const std::string& key) {
  for (const Column& c : list)
    if (c.key == key) return c;
  throw std::logic_error(key);
}

TEST_F(Compare, EveryCombinationIsRunWithEverySeed) {
  const Comparison c = compared(2);
  EXPECT_TRUE(c.finished());
  EXPECT_FALSE(c.stopped);
  ASSERT_EQ(c.cells.size(), 4u);
  const auto list = columns(c.tiers);
  for (const Cell& cell : c.cells) {
    EXPECT_EQ(cell.done(), 3u);
    EXPECT_GE(cell.of(column(list, "over_ideal")).least, 1 - 1e-4) << cell.traffic;
  }
  EXPECT_GT(c.cells[1].of(column(list, "completion_us")).median,
            1.5 * c.cells[0].of(column(list, "completion_us")).least);
  EXPECT_TRUE(std::isnan(c.cells[0].of(column(list, "victim_gbps")).median));
  EXPECT_GT(c.cells[2].of(column(list, "victim_gbps")).median, 1);
}

TEST_F(Compare, TheSameBytesComeOutHoweverManyRunAtOnce) {
  matrix_.loads = {0, 0.2};
  const Comparison one = compared(1), four = compared(4);
  EXPECT_EQ(document(one, false).dump(), document(four, false).dump());
  EXPECT_EQ(table(one), table(four));
  EXPECT_EQ(html(one), html(four));
}

TEST_F(Compare, TheTableHasARowForEachAndAHeadForEachTraffic) {
  const std::string text = table(compared(2));
  EXPECT_THAT(text,
              AllOf(HasSubstr("small, permutation:100KB\n"), HasSubstr("small, incast:5:20KB+victim"),
                    HasSubstr("\nfull "), HasSubstr("\nhalf "), HasSubstr("/ideal"), HasSubstr("Jain")));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST_F(Compare, TheDocumentHasEveryRunAndNoTimeOfDay) {
  const auto json = document(compared(2), false);
  EXPECT_EQ(json["cells"].size(), 4u);
  EXPECT_EQ(json["cells"][0]["runs"].size(), 3u);
  EXPECT_EQ(json["cells"][0]["runs"][2]["seed"], 3);
  EXPECT_TRUE(json["cells"][0]["runs"][0]["victim_gbps"].is_null());
  EXPECT_FALSE(json["cells"][0]["runs"][0].contains("cpu_seconds"));
  EXPECT_TRUE(document(compared(2), true)["cells"][0]["runs"][0].contains("cpu_seconds"));
}

TEST_F(Compare, WhatWasStoppedTellsWhatItHas) {
  Comparison c = prepare(matrix_, never_);
  const std::atomic<bool> stop = true;
  run(c, 2, stop, [](const Doing&) {});
  EXPECT_TRUE(c.stopped);
  EXPECT_FALSE(c.finished());
  EXPECT_THAT(table(c), HasSubstr("0 of 3 seeds"));
  EXPECT_EQ(document(c, false)["stopped"], true);
  EXPECT_THAT(html(c), HasSubstr("Stopped before everything had run"));
}

TEST_F(Compare, StoppingEndsThePreparationToo) {
  const std::atomic<bool> stop = true;
  EXPECT_THROW(prepare(matrix_, stop), std::runtime_error);
}

TEST_F(Compare, ARunThatFailsTakesNobodysResults) {
  Comparison c = prepare(matrix_, never_);
  c.cells.back().plans.back().setup.limit = Duration(0);
  run(c, 1, never_, [](const Doing&) {});
  ASSERT_TRUE(c.failure);
  EXPECT_THROW(std::rethrow_exception(c.failure), std::invalid_argument);
  EXPECT_EQ(c.cells.front().done(), 3u);
  EXPECT_EQ(c.cells.back().done(), 2u);
}

// A worker that ends before the next one was started.
TEST_F(Compare, StoppingAtOnceAlwaysEnds) {
  Comparison c = prepare(matrix_, never_);
  const std::atomic<bool> stop = true;
  for (int i = 0; i < 200; ++i) run(c, 4, stop, [](const Doing&) {});
  EXPECT_TRUE(c.stopped);
}

TEST_F(Compare, BadInputIsRefusedBeforeAnythingRuns) {
  matrix_.cc = {"full", "none-such"};
  EXPECT_THROW(prepare(matrix_, never_), std::invalid_argument);
  matrix_.cc = {"full"}, matrix_.traffic = {"permutation:100KB", "nothing:1"};
  EXPECT_THROW(prepare(matrix_, never_), std::invalid_argument);
  matrix_.traffic = {"permutation:100KB"}, matrix_.topologies = {"/nowhere.toml"};
  EXPECT_THROW(prepare(matrix_, never_), std::invalid_argument);
}

TEST_F(Compare, TrafficThatCannotBeSentIsRefusedBeforeAnythingRuns) {
  const auto refused = [&](const char* traffic, const char* why) {
    matrix_.traffic = {"permutation:100KB:within=rail", traffic};
    EXPECT_THAT(complaint([&] { prepare(matrix_, never_); }), AllOf(HasSubstr(traffic), HasSubstr(why)));
  };
  matrix_.scenario.settings = {{"hosts.payload", "64"}};
  refused("flow:1TB", "2^32");
  Topology apart = small_topology(4, 2);
  apart.rails_meet = false, apart.tiers = 1;
  apart.switches.pop_back();  // the spine, and the links to it
  std::erase_if(apart.links, [](const Link& link) { return link.low.kind == End::Kind::kSwitch; });
  std::ofstream(topology_) << explicit_toml(apart);
  refused("flow:1KB:from=0:to=1", "no route");
}

// Also what only a simulation would have found.
TEST_F(Compare, WhatCannotBeSimulatedIsRefusedBeforeAnythingRuns) {
  const auto refused = [&](Scenario scenario, const char* why) {
    matrix_.scenario = std::move(scenario);
    EXPECT_THAT(complaint([&] { prepare(matrix_, never_); }),
                AllOf(HasSubstr("small, permutation:100KB, full: "), HasSubstr(why)));
  };
  refused({.limit = 0s}, "limit");
  refused({.settings = {{"switches.pfc.headroom", "1KB"}}}, "headroom of 1000 bytes is not safe");
  refused({.settings = {{"switches.ecn.kmin", "1MB"}}}, "kmin");
  refused({.faults = {{.low = "nobody/9"}}}, "nobody/9");
}

TEST_F(Compare, AFaultTakesANicByItsNumberToo) {
  matrix_.scenario.faults = {{.low = "1"}};
  const Comparison c = prepare(matrix_, never_);
  EXPECT_EQ(c.cells[0].plans[0].setup.model.faults[0].low, nic_name(c.topologies[0], 1));
  matrix_.scenario.faults = {{.low = "8"}};  // there are 0 to 7
  EXPECT_THROW(prepare(matrix_, never_), std::invalid_argument);
}

TEST_F(Compare, ARunThatIsCutShortIsNotFinished) {
  matrix_.scenario.limit = 3us, matrix_.seeds = {1};
  const Comparison c = compared(1);
  EXPECT_FALSE(c.finished());
  EXPECT_FALSE(c.stopped);
  EXPECT_THAT(table(c), HasSubstr("NOT FINISHED"));
  EXPECT_THAT(summary(c), HasSubstr("NOT FINISHED"));
}

// Not even where the last of what it delivered came early: a deadlock would look fast.
TEST_F(Compare, ARunThatIsCutShortHasNoCompletionAndIsNeverTheBest) {
  matrix_.traffic = {"permutation:1KB+permutation:10MB:at=1ms"};
  matrix_.scenario.limit = 1100us;
  const Comparison c = compared(1);
  const auto json = document(c, false)["cells"][0];
  EXPECT_GT(json["runs"][0]["messages"], 0);
  EXPECT_TRUE(json["runs"][0]["completion_us"].is_null());
  EXPECT_TRUE(json["median_least_most"]["over_ideal"][0].is_null());
  EXPECT_THAT(table(c), Not(HasSubstr("nan")));
  EXPECT_THAT(html(c), AllOf(Not(HasSubstr("class=\"best\"")), Not(HasSubstr("nan"))));
}

TEST_F(Compare, TheSummaryOfOneRun) {
  matrix_.traffic.resize(1), matrix_.cc.resize(1), matrix_.seeds = {5};
  EXPECT_THAT(summary(compared(1)),
              AllOf(HasSubstr("small, permutation:100KB, full, seed 5"), HasSubstr("completion us"),
                    HasSubstr("slowdown"), HasSubstr("tier"), HasSubstr("pauses"), Not(HasSubstr("nan"))));
}

TEST_F(Compare, TheReportIsOneWellFormedFileThatNeedsNothingElse) {
  matrix_.samples = 50;
  const std::string text = html(compared(2));
  expect_well_formed(text);
  EXPECT_THAT(text, AllOf(HasSubstr("Slowdown of messages"), HasSubstr("Queue of the port"),
                          HasSubstr("Rate of that port"), HasSubstr("Use of links: half"),
                          HasSubstr("prefers-color-scheme: dark"), HasSubstr("<table>")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("http:")), Not(HasSubstr("https:")), Not(HasSubstr("nan")),
                          Not(HasSubstr("inf,"))));
}

}  // namespace
}  // namespace megascale::sim
