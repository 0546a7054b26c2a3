#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric_tools/topology/reach.h"
#include "fabric_tools/topology/read.h"
#include "fabric_tools/topology/write.h"
#include "tests/unit/complaint.h"

namespace megascale {
namespace {

using testing::HasSubstr;

constexpr const char* kSlurm = R"(# two leaves below a spine
SwitchName=leaf1 Nodes=n[1,3]
switchname=leaf2 nodes=n[2,\
4] LinkSpeed=100
SwitchName=spine Switches=leaf[1-2]   # top
)";

std::string slurm_complaint(const std::string& text, const Assumed& assumed = {}) {
  return complaint([&] { read_topology_slurm(text, "topology.conf", assumed); });
}

std::string topograph_complaint(const std::string& text) {
  return complaint([&] { read_topology_topograph(text, "graph.json", {}); });
}

std::vector<std::string> host_names(const Topology& t) {
  std::vector<std::string> names;
  for (const Host& host : t.hosts) names.push_back(host.name);
  return names;
}

TEST(SlurmTopology, HangsHostsBelowTheirLeaves) {
  const Topology t = read_topology_slurm(kSlurm, "topology.conf", {});
  EXPECT_THAT(host_names(t), testing::ElementsAre("n1", "n3", "n2", "n4"));
  EXPECT_EQ(t.tor_of(0).name, "leaf1");
  EXPECT_EQ(t.tor_of(2).name, "leaf2");
  EXPECT_EQ(t.sets, 2u);
  EXPECT_EQ(t.pods, 1u);
  const Reach reach(t);
  EXPECT_EQ(reach.tier(0, 1), 0u);
  EXPECT_EQ(reach.tier(0, 2), 1u);
}

TEST(SlurmTopology, SaysWhatItAssumes) {
  const Topology t = read_topology_slurm(
      kSlurm, "topology.conf",
      {.nics = 2, .host_rate = Rate::gigabits(100), .rate = Rate::gigabits(40), .delay = 3us});
  ASSERT_FALSE(t.notes.empty());
  EXPECT_THAT(t.notes[0], HasSubstr("tells no speeds: assumed are 2 NICs"));
  EXPECT_EQ(t.rails, 2u);
  EXPECT_EQ(t.sets, 2u);
  EXPECT_EQ(t.tor_of(1).name, "leaf1-1");
  double up = 0, down = 0;
  for (const Link& link : t.links) {
    EXPECT_EQ(link.delay, 3us);
    (link.low.kind == End::Kind::kNic ? down : up) += link.rate.bits_per_second;
  }
  EXPECT_EQ(down, 8 * 100e9);
  EXPECT_GE(up, down);  // no tier with less bandwidth up than down
  EXPECT_LT(up, down + 4 * 40e9);
}

TEST(SlurmTopology, AnyFileNameGivesANameThatIsReadBack) {
  const Topology t = read_topology_slurm(kSlurm, "a folder/my fabric\n\xc3\xa9.conf", {});
  EXPECT_EQ(t.name, "my-fabric---.conf");
  EXPECT_EQ(read_topology_toml(explicit_toml(t), "kept.toml").name, t.name);
}

TEST(SlurmTopology, NamesLineAndFault) {
  EXPECT_THAT(slurm_complaint("\nSwitchName=a\n"), HasSubstr("topology.conf:2: switch a needs Nodes= or"));
  EXPECT_THAT(slurm_complaint("Nodes=n1\n"), HasSubstr("lacks SwitchName="));
  EXPECT_THAT(slurm_complaint("SwitchName=a Hosts=n1\n"), HasSubstr("unknown key `Hosts`"));
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes\n"), HasSubstr("`Nodes` is not KEY=VALUE"));
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes=n[1-\n"), HasSubstr("topology.conf:1: `n[1-'"));
  EXPECT_THAT(slurm_complaint("BlockName=b Nodes=n1\n"), HasSubstr("topology/tree is read here"));
  EXPECT_THAT(slurm_complaint(""), HasSubstr("there are no hosts"));
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n"),
              HasSubstr("host n1 hangs below a and below b"));
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n"),
              HasSubstr("switch a is described twice"));
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n"),
              HasSubstr("switch a hangs below b and below c"));
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes=n1\nSwitchName=b Switches=a,x\n"),
              HasSubstr("switch x has neither hosts nor switches"));
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n"),
              HasSubstr("no way from n1/0 to n2/0"));
}

TEST(SlurmTopology, SwitchesInACircleAreFoundOut) {
  EXPECT_THAT(slurm_complaint("SwitchName=l Nodes=n1\nSwitchName=a Switches=l,b\nSwitchName=b Switches=a\n"),
              HasSubstr("circle"));
  EXPECT_THAT(slurm_complaint("SwitchName=l Nodes=n1\nSwitchName=a Switches=a,l\n"), HasSubstr("circle"));
}

TEST(SlurmTopology, IsRefusedWhenItWouldNotFitIntoMemory) {
  const Assumed thin{.nics = 64, .host_rate = Rate{1e14}, .rate = Rate{1e6}};  // 10^8 cables up for each NIC
  EXPECT_THAT(slurm_complaint("SwitchName=a Nodes=n[1-10]\n", thin), HasSubstr("GB of memory"));
}

TEST(SlurmTopology, LeavesOfUnequalSizeAreNoted) {
  const Topology t = read_topology_slurm(
      "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n4\nSwitchName=c Switches=a,b\n", "topology.conf", {});
  EXPECT_THAT(t.notes, testing::Contains(HasSubstr("unequal")));
}

TEST(TopographGraph, TakesTheClosestSwitchFirst) {
  const Topology t = read_topology_topograph(
      R"({"instances": [
           {"id": "I1", "network_layers": ["leaf-a", "spine", "core"], "labels": {"x": "y"}},
           {"id": "I2", "network_layers": ["leaf-a", "spine", "core"]},
           {"id": "I3", "network_layers": ["leaf-b", "spine", "core"]}]})",
      "graph.json", {});
  EXPECT_THAT(host_names(t), testing::ElementsAre("I1", "I2", "I3"));
  EXPECT_EQ(t.tiers, 3u);
  const Reach reach(t);
  EXPECT_EQ(reach.tier(0, 1), 0u);
  EXPECT_EQ(reach.tier(1, 2), 1u);
}

TEST(TopographGraph, NamesWhatIsWrong) {
  EXPECT_THAT(topograph_complaint("{"), HasSubstr("graph.json: "));
  EXPECT_THAT(topograph_complaint("[]"), HasSubstr("is missing"));
  EXPECT_THAT(topograph_complaint(R"({"instances": 3})"), HasSubstr("is missing"));
  EXPECT_THAT(topograph_complaint(R"({"instances": []})"), HasSubstr("no hosts"));
  EXPECT_THAT(topograph_complaint(R"({"instances": [3]})"), HasSubstr("instances[0] must be an object"));
  EXPECT_THAT(topograph_complaint(R"({"instances": [{"id": "a"}]})"), HasSubstr("`network_layers`"));
  EXPECT_THAT(topograph_complaint(R"({"instances": [{"id": "a", "network_layers": [1]}]})"),
              HasSubstr("must be a name"));
  EXPECT_THAT(topograph_complaint(R"({"instances": [{"id": 7, "network_layers": ["s"]}]})"),
              HasSubstr("instances[0].id must be a name"));
  EXPECT_THAT(topograph_complaint(R"({"instances": [{"id": "a", "network_layers": ["s", "t"]},
                                                    {"id": "b", "network_layers": ["s", "u"]}]})"),
              HasSubstr("switch s hangs below t and below u"));
}

}  // namespace
}  // namespace megascale
