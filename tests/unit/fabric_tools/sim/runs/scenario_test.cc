#include "fabric_tools/sim/runs/scenario.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/complaint.h"

namespace megascale::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string wrong(const std::string& text) {
  return complaint([&] { parse_scenario(text, "s.toml"); });
}

TEST(Scenario, AWholeOneIsRead) {
  const Scenario s = parse_scenario(R"(
topology = "a.toml"
traffic = "incast:64:1MB+victim"
cc = "dcqcn:connectx"
seed = 7
load = 0.5
limit = "2s"
[switches]
balance = "spray"
pfc.on = false
ecn = { kmin = "50KB", pmax = 1 }
[hosts]
ack_every = 2
rtt_bias = "-8us"
[[fault]]
at = "1ms"
lasts = "10ms"
low = "host0/0"
rate = 0.25
[[fault]]
low = "tor0"
high = "spine1"
)",
                                    "s.toml");
  EXPECT_EQ(s.topology, "a.toml");
  EXPECT_EQ(s.traffic, "incast:64:1MB+victim");
  EXPECT_EQ(s.cc, "dcqcn:connectx");
  EXPECT_EQ(s.seed, 7u);
  EXPECT_EQ(s.load, 0.5);
  EXPECT_EQ(s.limit, 2s);
  const auto setup = s.setup(Topology{}, Preset{.algorithm = "fixed"});
  EXPECT_EQ(setup.model.switches.balance, Balance::kSpray);
  EXPECT_FALSE(setup.model.switches.pfc.on);
  EXPECT_EQ(setup.model.switches.ecn.kmin, 50'000u);
  EXPECT_EQ(setup.model.switches.ecn.pmax, 1);
  EXPECT_EQ(setup.model.hosts.ack_every, 2u);
  EXPECT_EQ(setup.model.hosts.rtt_bias, -8us);
  EXPECT_EQ(setup.seed, 7u);
  ASSERT_EQ(setup.model.faults.size(), 2u);
  EXPECT_EQ(setup.model.faults[0].at, 1ms);
  EXPECT_EQ(setup.model.faults[0].lasts, 10ms);
  EXPECT_EQ(setup.model.faults[0].rate, 0.25);
  EXPECT_EQ(setup.model.faults[1].high, "spine1");
  EXPECT_FALSE(setup.model.faults[1].lasts);
}

// A scenario changes what a preset asks for, not the other way round.
TEST(Scenario, ItsSettingsGoBeforeThePresets) {
  Preset preset{.algorithm = "fixed"};
  preset.network = {{"switches.ecn.kmin", "5KB"}, {"switches.ecn.kmax", "200KB"}};
  Scenario s;
  s.set("switches.ecn.kmin", "7KB");
  const auto setup = s.setup(Topology{}, preset);
  EXPECT_EQ(setup.model.switches.ecn.kmin, 7000u);
  EXPECT_EQ(setup.model.switches.ecn.kmax, 200'000u);
}

TEST(Scenario, FilesBesideItAreFound) {
  const auto folder = std::filesystem::temp_directory_path() / ("scenario_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "here.toml") << "";
  std::ofstream(folder / "s.toml") << "topology = \"here.toml\"\nplacement = \"elsewhere.json\"\n";
  const Scenario s = read_scenario((folder / "s.toml").string());
  EXPECT_EQ(s.topology, (folder / "here.toml").string());
  EXPECT_EQ(s.placement, "elsewhere.json");
  std::filesystem::remove_all(folder);
}

TEST(Scenario, WhatIsWrongIsSaidWithItsLine) {
  EXPECT_THAT(wrong("seed = 1\nseed ="), HasSubstr("s.toml, line 2"));
  EXPECT_THAT(wrong("\ncolour = 1"), AllOf(HasSubstr("line 2"), HasSubstr("no `colour'")));
  EXPECT_THAT(wrong("[switches]\npfc.on = 3"), AllOf(HasSubstr("switches.pfc.on"), HasSubstr("on or off")));
  EXPECT_THAT(wrong("[switches]\nbuffer = -1"),
              AllOf(HasSubstr("cannot be `-1'"), HasSubstr("10KB to 1000000MB")));
  EXPECT_THAT(wrong("[switches]\nbufer = 1"), HasSubstr("no `switches.bufer'"));
  EXPECT_THAT(wrong("[hosts]\npmax = 1"), HasSubstr("did you mean switches.ecn.pmax"));
  EXPECT_THAT(wrong("[hosts]\njitter = [1]"), HasSubstr("a text, a number"));
  EXPECT_THAT(wrong("seed = -1"), HasSubstr("`seed'"));
  EXPECT_THAT(wrong("limit = \"long\""), HasSubstr("as 10ms"));
  EXPECT_THAT(wrong("fault = 1"), HasSubstr("[[fault]]"));
  EXPECT_THAT(wrong("[[fault]]\nlow = \"a/0\"\nrate = 2"), HasSubstr("0 to 1"));
  EXPECT_THAT(wrong("[[fault]]\nat = \"1ms\""), HasSubstr("needs `low'"));
  EXPECT_THAT(wrong("[[fault]]\nlow = \"a/0\"\nduring = 2"), HasSubstr("no `during'"));
  EXPECT_THAT(complaint([] { read_scenario("/nowhere.toml"); }),
              HasSubstr("/nowhere.toml cannot be read: No such file"));
  EXPECT_THAT(complaint([] { read_scenario("/tmp"); }), HasSubstr("Is a directory"));
}

TEST(Scenario, AFaultOnTheCommandLine) {
  const Fault f = parse_fault("at=1ms,lasts=10ms,low=host0/0,rate=0.25");
  EXPECT_EQ(f.at, 1ms);
  EXPECT_EQ(f.low, "host0/0");
  EXPECT_THAT(complaint([] { parse_fault("at=1ms,soon"); }), HasSubstr("`soon' is not NAME=VALUE"));
  EXPECT_THAT(complaint([] { parse_fault("at=1x,low=a"); }),
              AllOf(HasSubstr("fault `at=1x,low=a'"), HasSubstr("`1x'")));
  EXPECT_THAT(complaint([] { parse_fault(""); }), HasSubstr("NAME=VALUE"));
}

}  // namespace
}  // namespace megascale::sim
