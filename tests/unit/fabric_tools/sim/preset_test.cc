#include "fabric_tools/sim/preset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "tests/unit/complaint.h"
#include "tests/unit/transport/base/scratch.h"

namespace megascale::sim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// A folder of presets that is gone when the test is.
class Presets : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { scratch_.write(name + ".toml", text); }
  std::string complaint_about(const std::string& name) const {
    return complaint([&] { load_preset(name, folder_); });
  }
  const Scratch scratch_;
  const std::string folder_ = scratch_.path("");
};

const Algorithm& algorithm_of(const Preset& preset) {
  const auto all = algorithms();
  return *std::find_if(all.begin(), all.end(),
                       [&](const Algorithm& a) { return a.name == preset.algorithm; });
}

TEST(ShippedPresets, LoadAndStateEveryParameterOfTheirAlgorithm) {
  const auto names = preset_names();
  ASSERT_GE(names.size(), 11u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Preset preset = load_preset(name);
    EXPECT_FALSE(preset.source.empty());
    EXPECT_FALSE(preset.network.empty());
    for (const Parameter& p : algorithm_of(preset).parameters) {
      EXPECT_TRUE(preset.parameters.contains(std::string(p.name))) << p.name << " is missing";
    }
    std::vector<std::string> complaints;
    const PathFacts path{.line_rate = Rate::gigabits(100), .packet = 4096, .base_rtt = 12us};
    EXPECT_NE(build_controller(preset.algorithm, preset.parameters, path, &complaints), nullptr);
    EXPECT_THAT(complaints, ::testing::IsEmpty());
  }
}

TEST(ShippedPresets, AreThoseThatTheComparisonNames) {
  EXPECT_THAT(preset_names(),
              ::testing::IsSupersetOf({"fixed", "dcqcn-paper", "dcqcn-connectx", "dcqcn-barre", "swift",
                                       "timely", "timely-patched", "hpcc", "nscc", "barre", "hybrid"}));
}

TEST(ShippedPresets, AColonStandsForTheDashOfTheFile) {
  const Preset preset = load_preset("dcqcn:connectx");
  EXPECT_EQ(preset.name, "dcqcn:connectx");
  EXPECT_EQ(preset.algorithm, "dcqcn");
  EXPECT_EQ(preset.parameters.at("cut_gap"), 4e-6);
  EXPECT_EQ(preset.parameters.at("additive_rate"), 5e6);
}

TEST(ShippedPresets, GoIntoASetup) {
  sim::Setup setup;  // GoogleTest has a name of its own
  setup.model.switches.buffer = 1'000'000;
  apply(load_preset("dcqcn:paper"), setup);
  EXPECT_EQ(setup.algorithm, "dcqcn");
  EXPECT_EQ(setup.parameters.at("byte_counter"), 10e6);
  EXPECT_EQ(setup.model.switches.ecn.kmin, 5'000u);
  EXPECT_EQ(setup.model.switches.ecn.at, Rate::gigabits(40));
  EXPECT_TRUE(setup.model.hosts.cnp);
  EXPECT_EQ(setup.model.hosts.cnp_interval, 50us);
  EXPECT_EQ(setup.model.switches.buffer, 1'000'000u) << "what a preset does not name stays";
}

TEST(ShippedPresets, OneParameterCanBeReplacedInTheName) {
  const Preset preset = load_preset("hybrid+marks=0+queue_target=8us");
  EXPECT_EQ(preset.parameters.at("marks"), 0);
  EXPECT_EQ(preset.parameters.at("queue_target"), 8e-6);
  EXPECT_EQ(preset.parameters.at("filter"), load_preset("hybrid").parameters.at("filter"));
  EXPECT_THROW(load_preset("hybrid+marks"), std::invalid_argument);
  EXPECT_THROW(load_preset("hybrid+marks="), std::invalid_argument);
  EXPECT_THROW(load_preset("hybrid+"), std::invalid_argument);
  EXPECT_THROW(load_preset("hybrid+marks=2"), std::invalid_argument);
}

TEST_F(Presets, AnUnknownNameIsAnsweredWithThoseThatThereAre) {
  write("swift", "");
  write("dcqcn-paper", "");
  EXPECT_THAT(complaint_about("dcqcn:papre"),
              AllOf(HasSubstr("dcqcn:papre"), HasSubstr("dcqcn-paper, swift")));
  EXPECT_THAT(complaint_about("../swift"), HasSubstr("no preset"));
  EXPECT_THAT(complaint_about(""), HasSubstr("no preset"));
  EXPECT_THAT(complaint_about("/nowhere/at/all.toml"), HasSubstr("cannot be read"));
}

TEST_F(Presets, QuantitiesHaveUnitsAndPlainNumbersCountInTheParametersOwn) {
  write("mine", R"(
algorithm = "dcqcn"
source = "a test"
[parameters]
alpha_timer = "55us"
cut_gap = 4e-6
additive_rate = "40M"
byte_counter = "10MB"
fast_recovery = 3
[network]
switches.ecn.on = false
switches.ecn.pmax = 0.5
hosts.ack_every = 4
)");
  const Preset preset = load_preset("mine", folder_);
  EXPECT_EQ(preset.parameters.at("alpha_timer"), 55e-6);
  EXPECT_EQ(preset.parameters.at("cut_gap"), 4e-6);
  EXPECT_EQ(preset.parameters.at("additive_rate"), 40e6);
  EXPECT_EQ(preset.parameters.at("byte_counter"), 10e6);
  EXPECT_EQ(preset.parameters.at("fast_recovery"), 3);
  sim::Setup setup;  // GoogleTest has a name of its own
  apply(preset, setup);
  EXPECT_FALSE(setup.model.switches.ecn.on);
  EXPECT_EQ(setup.model.switches.ecn.pmax, 0.5);
  EXPECT_EQ(setup.model.hosts.ack_every, 4u);
}

TEST_F(Presets, WhatIsWrongIsNamedWithFileAndLine) {
  const std::string start = "algorithm = \"swift\"\nsource = \"a test\"\n";
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"", {"`algorithm' is missing"}},
      {"algorithm = 3\n", {":1: ", "in quotes"}},
      {"algorithm = \"warp\"\nsource = \"x\"\n", {"`warp'", "swift"}},
      {start + "colour = 1\n", {":3: ", "`colour'", "algorithm, source"}},
      {start + "parameters = 1\n", {":3: ", "table"}},
      {start + "[parameters]\nbase_targets = 1\n", {":4: ", "`base_targets'", "base_target"}},
      {start + "[parameters]\nbase_target = \"25 parsecs\"\n", {":4: ", "25 parsecs", "0 to 1 s"}},
      {start + "[parameters]\nbase_target = \"2s\"\n", {":4: ", "0 to 1 s"}},
      {start + "[parameters]\nbase_target = nan\n", {":4: "}},
      {start + "[parameters]\nbase_target = true\n", {":4: ", "must be a number"}},
      {start + "[parameters]\nbase_target = [1]\n", {":4: ", "must be a number"}},
      {start + "[network]\nswitches.ecn.kmim = 1\n", {":4: ", "switches.ecn.kmim"}},
      {start + "[network]\nswitches.ecn.pmax = 7\n", {":4: ", "0 to 1"}},
      {start + "[network]\nswitches.ecn.on = [true]\n", {":4: ", "switches.ecn.on"}},
      {start + "[[[\n", {":3:"}},
  };
  for (const auto& [text, wanted] : cases) {
    write("wrong", text);
    for (const std::string& part : wanted) EXPECT_THAT(complaint_about("wrong"), HasSubstr(part)) << text;
  }
}

TEST_F(Presets, AFileThatIsNoPresetIsRefused) {
  write("large", std::string(2 << 20, '#'));
  EXPECT_THAT(complaint_about("large"), HasSubstr("1 MiB"));
  fs::create_directory(fs::path(folder_) / "folder.toml");
  EXPECT_THAT(complaint_about((fs::path(folder_) / "folder.toml").string()), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace megascale::sim
