#include "fabric_tools/sim/traffic/step.h"

#include <gtest/gtest.h>

#include "tests/unit/fabric_tools/sim/traffic/fake_wire.h"

namespace megascale::sim {
namespace {

// Four hosts of two GPUs each: tensor parallel inside a host, two stages, two replicas.
struct Small {
  Topology topology = small_topology(4, 2);
  TrainingModel model{.layers = 4, .hidden = 64, .sequence = 32, .vocabulary = 128, .micro_batches = 3};
  Parallel parallel{2, 2, 2};
  Placement placement = place(topology, {}, 2, parallel);
};

TEST(Step, EveryCommunicationThatLeavesAHostSendsItsBytesOnce) {
  Small s;
  const TrainingStep step = step_of(s.model, s.parallel);
  std::map<std::pair<uint32_t, uint32_t>, Bytes> expected;
  for (const Communication& c : step.communications) {
    if (c.kind == CommunicationKind::kCompute) continue;
    const size_t senders = c.kind == CommunicationKind::kSend ? 1 : c.ranks.size();
    for (size_t i = 0; i < senders && c.ranks.size() > 1; ++i) {
      const auto way = s.placement.way(c.ranks[i], c.ranks[(i + 1) % c.ranks.size()]);
      if (way.source != kNone) expected[{way.source, way.destination}] += c.bytes_per_rank();
    }
  }
  ASSERT_FALSE(expected.empty());
  StepTraffic traffic(step, s.placement, Rate::gigabits(2400));
  FakeWire wire;
  wire.run(traffic);
  const auto sums = wire.bytes_of_pairs();
  ASSERT_EQ(sums.size(), expected.size());
  for (const auto& [pair, bytes] : expected) {
    ASSERT_TRUE(sums.contains(pair));
    // A ring's chunks differ by a byte where a buffer does not divide.
    EXPECT_NEAR(static_cast<double>(sums.at(pair)), static_cast<double>(bytes),
                static_cast<double>(step.communications.size()));
    EXPECT_EQ(pair.first % 2, pair.second % 2);  // rails are never crossed
  }
  EXPECT_DOUBLE_EQ(static_cast<double>(wire.log.size()), traffic.messages());
}

// By hand: a send after 5 us of computing, then a ring of two in which each sends twice; 10 us a message.
TEST(Step, ComputesBeforeItSendsAndWaitsForWhatGoesBefore) {
  Small s;
  TrainingStep step;
  step.communications.push_back({CommunicationKind::kSend, Dimension::kPipeline, 1000, 5us, {0, 4}, {}});
  step.communications.push_back({CommunicationKind::kAllReduce, Dimension::kData, 2000, 7us, {0, 2}, {0}});
  step.communications.push_back({CommunicationKind::kCompute, Dimension::kTensor, 0, 3us, {0}, {1}});
  step.communications.push_back(
      {CommunicationKind::kAllGather, Dimension::kTensor, 3'000'000, 0us, {0, 1}, {2}});
  step.communications.push_back({CommunicationKind::kSend, Dimension::kPipeline, 1, 0us, {4, 0}, {3, 0}});
  StepTraffic traffic(step, in_order(s.topology, {0, 1, 2, 3}, 2, s.parallel), Rate::gigabits(2400));
  FakeWire wire;
  wire.run(traffic);
  ASSERT_EQ(wire.log.size(), 1u + 4 + 1);
  EXPECT_EQ(wire.log[0].posted - Time{}, 5us);
  EXPECT_EQ(wire.log[1].posted - Time{}, 22us);
  EXPECT_EQ(wire.log[1].bytes, 1000u);
  EXPECT_EQ(wire.log[3].posted - Time{}, 32us);
  // 42 us, 3 us of computing, 1.5 MB inside the host at 300 GB/s: 5 us.
  EXPECT_EQ(wire.log[5].posted - Time{}, 50us);
  EXPECT_EQ(wire.log[5].bytes, 1u);
}

}  // namespace
}  // namespace megascale::sim
