#include "fabric_tools/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fabric_tools/placement/formats.h"
#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/placement/small_fabric.h"

namespace megascale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

uint32_t set_of(const Topology& t, uint32_t host) { return t.tor_of(t.hosts[host].first_nic).set; }
uint32_t pod_of(const Topology& t, uint32_t host) { return t.tor_of(t.hosts[host].first_nic).pod; }

std::string job_complaint(const Parallel& p, uint32_t gpus, const std::vector<uint32_t>& hosts = {}) {
  const Topology t = small_fabric();
  return complaint([&] { place(t, hosts, gpus, p); });
}

TEST(Placement, EveryHostOnceAndTensorRanksInsideOne) {
  const Topology t = small_fabric();
  const Parallel p{.tensor = 2, .pipeline = 4, .data = 2};
  const Placement placed = place(t, {7, 6, 5, 4, 3, 2, 1, 0}, 2, p);
  EXPECT_EQ(std::set<uint32_t>(placed.hosts.begin(), placed.hosts.end()).size(), 8u);
  for (uint32_t stage = 0; stage < 4; ++stage) {
    for (uint32_t replica = 0; replica < 2; ++replica)
      EXPECT_EQ(placed.host_of(p.rank(stage, replica, 0)), placed.host_of(p.rank(stage, replica, 1)));
  }
}

TEST(Placement, TheReplicasOfAStageShareAToRSet) {
  const Topology t = small_fabric();
  const Parallel p{.tensor = 2, .pipeline = 4, .data = 2};
  const Placement placed = place(t, {0, 2, 4, 6, 1, 3, 5, 7}, 2, p);
  for (uint32_t stage = 0; stage < 4; ++stage)
    EXPECT_EQ(set_of(t, placed.host_of(p.rank(stage, 0, 0))), set_of(t, placed.host_of(p.rank(stage, 1, 0))));
}

TEST(Placement, WhatIsTooLargeForASetStaysInAPod) {
  const Topology t = small_fabric();
  const Parallel p{.tensor = 2, .pipeline = 2, .data = 4};
  const Placement placed = place(t, {0, 4, 1, 5, 2, 6, 3, 7}, 2, p);
  for (uint32_t stage = 0; stage < 2; ++stage) {
    for (uint32_t replica = 1; replica < 4; ++replica)
      EXPECT_EQ(pod_of(t, placed.host_of(p.rank(stage, 0, 0))),
                pod_of(t, placed.host_of(p.rank(stage, replica, 0))));
  }
}

TEST(Placement, TakesWholeSetsWhereSomeAreBroken) {
  const Topology t = small_fabric();
  // Host 0 is missing: sets 1, 2 and 3 are whole.
  const Placement placed = place(t, {1, 2, 3, 4, 5, 6, 7}, 2, {.tensor = 2, .pipeline = 3, .data = 2});
  EXPECT_THAT(placed.hosts, testing::UnorderedElementsAre(2, 3, 4, 5, 6, 7));
  for (uint32_t i = 0; i < 6; i += 2) EXPECT_EQ(set_of(t, placed.hosts[i]), set_of(t, placed.hosts[i + 1]));
}

TEST(Placement, ASmallJobStaysInOnePodAndOneSet) {
  const Topology t = small_fabric();
  const Placement pod = place(t, {}, 2, {.tensor = 2, .pipeline = 2, .data = 2});
  for (const uint32_t host : pod.hosts) EXPECT_EQ(pod_of(t, host), pod_of(t, pod.hosts[0]));
  const Placement set = place(t, {7, 0, 3, 1}, 2, {.tensor = 2, .pipeline = 2, .data = 1});
  EXPECT_THAT(set.hosts, ElementsAre(0, 1));
}

TEST(Placement, FragmentsAreUsedWhenNothingElseIsLeft) {
  const Topology t = small_fabric();
  // One host of each set: a block of two must span sets, but need not leave its pod.
  const Placement placed = place(t, {0, 2, 4, 6}, 2, {.tensor = 2, .pipeline = 2, .data = 2});
  EXPECT_THAT(placed.hosts, ElementsAre(0, 2, 4, 6));
}

TEST(Placement, StaysOnTheRailOfTheSender) {
  const Topology t = small_fabric();
  const Placement placed = place(t, {}, 2, {.tensor = 2, .pipeline = 1, .data = 8});
  for (uint32_t a = 0; a < 16; ++a) {
    EXPECT_EQ(t.nics[placed.nic_of(a)].rail, a % 2);
    for (uint32_t b = 0; b < 16; ++b) {
      const Placement::Way way = placed.way(a, b);
      EXPECT_EQ(way.source == kNone, a / 2 == b / 2);
      if (way.source == kNone) continue;
      EXPECT_EQ(t.nics[way.source].rail, t.nics[way.destination].rail);
      EXPECT_EQ(t.nics[way.destination].host, placed.host_of(b));
    }
  }
}

TEST(Placement, MoreGpusThanNicsShareThem) {
  const Topology t = small_fabric();
  const Placement placed = place(t, {}, 8, {.tensor = 8, .pipeline = 1, .data = 2});
  std::vector<uint32_t> rails;
  for (uint32_t rank = 0; rank < 8; ++rank) rails.push_back(t.nics[placed.nic_of(rank)].rail);
  EXPECT_THAT(rails, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(Placement, SaysWhyAJobDoesNotFit) {
  EXPECT_THAT(job_complaint({.tensor = 4}, 2), HasSubstr("would leave its host"));
  EXPECT_THAT(job_complaint({.tensor = 2, .data = 9}, 2),
              HasSubstr("need 9 hosts with 2 GPUs, and there are 8"));
  EXPECT_THAT(job_complaint({.tensor = 1, .data = 3}, 2), HasSubstr("no multiple of the 2 GPUs"));
  EXPECT_THAT(job_complaint({.tensor = 2}, 2, {1, 1}), HasSubstr("host-2 is in the list twice"));
  EXPECT_THAT(job_complaint({.tensor = 0}, 2), HasSubstr("at least 1"));
  EXPECT_THAT(job_complaint({.tensor = 1}, 0), HasSubstr("at least one GPU"));
}

TEST(Formats, ListHostsInOrderOfRanks) {
  const Topology t = small_fabric();
  const Parallel p{.tensor = 2, .pipeline = 2, .data = 1};
  const Placement placed = in_order(t, {5, 2, 0}, 2, p);
  EXPECT_EQ(hostfile(placed), "host-6 slots=2\nhost-3 slots=2\n");
  EXPECT_EQ(slurm_hostfile(placed), "host-6\nhost-6\nhost-3\nhost-3\n");
  EXPECT_EQ(kubernetes_labels(placed, p),
            "kubectl label --overwrite node host-6 megascale/position=0 megascale/stage=0 megascale/set=2 "
            "megascale/pod=1\n"
            "kubectl label --overwrite node host-3 megascale/position=1 megascale/stage=1 megascale/set=1 "
            "megascale/pod=0\n");
}

}  // namespace
}  // namespace megascale
