#include "fabric_tools/topology/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "fabric_tools/topology/write.h"
#include "tests/unit/complaint.h"

namespace megascale {
namespace {

using testing::HasSubstr;

std::string toml_complaint(const std::string& text) {
  return complaint([&] { read_topology_toml(text, "f.toml"); });
}

constexpr const char* kClos = R"(kind = "clos"
[hosts]
count = 8
nics = 2
per_set = 4
[[tier]]
ports = 8
rate = "200G"
delay = "500ns"
up = 2
[[tier]]
ports = 8
rate = "400G"
delay = "1us"
)";

// kClos with one line in the place of another.
std::string with(const std::string& line, const std::string& other) {
  std::string text = kClos;
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), other);
}

void expect_same(const Topology& a, const Topology& b) {
  ASSERT_EQ(a.hosts.size(), b.hosts.size());
  ASSERT_EQ(a.nics.size(), b.nics.size());
  ASSERT_EQ(a.switches.size(), b.switches.size());
  ASSERT_EQ(a.links.size(), b.links.size());
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.rails, b.rails);
  EXPECT_EQ(a.sets, b.sets);
  EXPECT_EQ(a.pods, b.pods);
  EXPECT_EQ(a.tiers, b.tiers);
  EXPECT_EQ(a.rails_meet, b.rails_meet);
  for (size_t i = 0; i < a.hosts.size(); ++i) EXPECT_EQ(a.hosts[i].name, b.hosts[i].name);
  for (size_t i = 0; i < a.nics.size(); ++i) {
    EXPECT_EQ(a.nics[i].link, b.nics[i].link);
    EXPECT_EQ(a.nics[i].rail, b.nics[i].rail);
  }
  for (size_t i = 0; i < a.switches.size(); ++i) {
    EXPECT_EQ(a.switches[i].name, b.switches[i].name);
    EXPECT_EQ(a.switches[i].tier, b.switches[i].tier);
    EXPECT_EQ(a.switches[i].set, b.switches[i].set);
    EXPECT_EQ(a.switches[i].pod, b.switches[i].pod);
  }
  for (size_t i = 0; i < a.links.size(); ++i) {
    EXPECT_TRUE(a.links[i].low == b.links[i].low && a.links[i].high == b.links[i].high);
    EXPECT_TRUE(a.links[i].rate == b.links[i].rate && a.links[i].delay == b.links[i].delay);
  }
}

TEST(ReadTopology, ReadsAClos) {
  const Topology t = read_topology_toml(kClos, "f.toml");
  EXPECT_EQ(t.hosts.size(), 8u);
  EXPECT_EQ(t.nics.size(), 16u);
  EXPECT_EQ(t.switches.size(), 4u + 2);
  EXPECT_EQ(t.links.size(), 16u + 4 * 2);
  EXPECT_EQ(t.links[0].rate, Rate::gigabits(200));
  EXPECT_EQ(t.links[0].delay, 500ns);
  EXPECT_EQ(t.links.back().rate, Rate::gigabits(400));
  EXPECT_EQ(t.hosts[0].name, "host-1");
}

TEST(ReadTopology, SaysFileLineAndWhatWouldBeRight) {
  EXPECT_THAT(toml_complaint("kind = \"ring\"\n"), HasSubstr("f.toml:1: `kind` must be clos"));
  EXPECT_THAT(toml_complaint(""), HasSubstr("f.toml:1: `kind`"));
  EXPECT_THAT(toml_complaint("kind = "), HasSubstr("f.toml:1:"));
  EXPECT_THAT(toml_complaint(with("nics = 2", "nics = 0")),
              HasSubstr("f.toml:4: `nics` must be a whole number"));
  EXPECT_THAT(toml_complaint(with("nics = 2", "nics = -1")), HasSubstr("`nics`"));
  EXPECT_THAT(toml_complaint(with("nics = 2", "nics = 1.5")), HasSubstr("`nics`"));
  EXPECT_THAT(toml_complaint(with("nics = 2", "nic = 2")),
              HasSubstr("unknown key `nic` in [hosts]; known are count"));
  EXPECT_THAT(toml_complaint(with("count = 8", "")), HasSubstr("[hosts] lacks `count`"));
  EXPECT_THAT(toml_complaint(with("\"200G\"", "\"0G\"")), HasSubstr("f.toml:8: `rate` must be a rate"));
  EXPECT_THAT(toml_complaint(with("\"200G\"", "200")), HasSubstr("`rate` must be a rate"));
  EXPECT_THAT(toml_complaint(with("\"500ns\"", "\"-1us\"")), HasSubstr("`delay` must be a time"));
  EXPECT_THAT(toml_complaint(with("\"500ns\"", "\"2s\"")), HasSubstr("`delay` must be a time"));
  EXPECT_THAT(toml_complaint(with("up = 2", "up = 20")), HasSubstr("f.toml: tier `tor`"));
  EXPECT_THAT(toml_complaint(with("count = 8", "count = 1000000000")), HasSubstr("GB of memory"));
  EXPECT_THAT(toml_complaint(with("per_set = 4", "per_set = 3")), HasSubstr("no multiple"));
}

TEST(ReadTopology, RefusesFilesThatAreNone) {
  EXPECT_THROW(read_topology("/nonexistent.toml"), std::invalid_argument);
  EXPECT_THROW(read_topology("/tmp"), std::invalid_argument);
  EXPECT_THROW(read_topology("/dev/null.yaml"), std::invalid_argument);
}

TEST(ReadTopology, EveryShippedTopologyIsSoundAndSurvivesItsExplicitForm) {
  size_t read = 0;
  for (const auto& file : std::filesystem::directory_iterator(CONFIGS)) {
    const std::string path = file.path();
    if (path.ends_with("faults.toml") || path.find("12288") != std::string::npos)
      continue;  // the latter is big
    SCOPED_TRACE(path);
    const Topology t = read_topology(path);
    expect_same(read_topology_toml(explicit_toml(t), "copy"), t);
    ++read;
  }
  EXPECT_GE(read, 9u);
}

TEST(ReadTopology, MegaScaleAtFullSize) {
  const Topology t = read_topology(CONFIGS "megascale-12288.toml");
  EXPECT_EQ(t.nics.size(), 12'288u);
  EXPECT_EQ(t.sets, 24u);
  EXPECT_EQ(t.pods, 6u);
  std::vector<uint32_t> down(t.switches.size(), 0), up(t.switches.size(), 0);
  for (const Link& link : t.links) {
    ++down[link.high.index];
    if (link.low.kind == End::Kind::kSwitch) ++up[link.low.index];
  }
  for (uint32_t i = 0; i < t.switches.size(); ++i) {
    if (t.switches[i].tier == 0) {
      EXPECT_EQ(down[i], 64u);
    }
    if (t.switches[i].tier == 1) {
      EXPECT_EQ(down[i], 32u);
    }
    if (t.switches[i].tier < 2) {
      EXPECT_EQ(up[i], 32u);
    }
  }
}

constexpr const char* kExplicit = R"(kind = "explicit"
[[host]]
name = "a"
[[host]]
name = "b"
[[switch]]
name = "s"
[[link]]
low = "a/0"
high = "s"
rate = "100G"
delay = "1us"
[[link]]
low = "b/0"
high = "s"
rate = "100G"
delay = "1us"
)";

TEST(ReadTopology, ExplicitFormNamesUnknownAndDoubleThings) {
  EXPECT_EQ(toml_complaint(kExplicit), "accepted");
  const auto edited = [](const std::string& from, const std::string& to) {
    std::string text = kExplicit;
    return toml_complaint(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_THAT(edited("low = \"a/0\"", "low = \"a/1\""),
              HasSubstr("f.toml:8: `a/1` is neither a switch nor a NIC"));
  EXPECT_THAT(edited("low = \"b/0\"", "low = \"a/0\""), HasSubstr("NIC a/0 has more than one link"));
  EXPECT_THAT(edited("name = \"b\"", "name = \"a\""), HasSubstr("`a/0` is given twice"));
  EXPECT_THAT(edited("high = \"s\"", "high = \"b/0\""), HasSubstr("`high` must be a switch"));
  EXPECT_THAT(edited("name = \"s\"", "name = \"s\"\ntier = 8"), HasSubstr("`tier` must be"));
  EXPECT_THAT(toml_complaint("kind = \"explicit\"\n[[host]]\nname = \"a\"\n"),
              HasSubstr("[[switch]] is needed"));
  EXPECT_THAT(toml_complaint(std::string(kExplicit) + "[[host]]\nname = \"c\"\n"),
              HasSubstr("NIC c/0 has 0 links"));
}

}  // namespace
}  // namespace megascale
