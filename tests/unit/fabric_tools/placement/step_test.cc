#include "fabric_tools/placement/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace megascale {
namespace {

// Numbers that are easy to multiply: an activation is 2 x 10 x 100 x 2 = 4,000 bytes.
TrainingModel four_layers() {
  return {.layers = 4,
          .hidden = 100,
          .sequence = 10,
          .parameters = 8000,
          .micro_batch = 2,
          .micro_batches = 3,
          .value_bytes = 2,
          .gradient_bytes = 4,
          .flops = 1e9};
}

std::vector<Communication> of(const TrainingStep& step, Dimension dimension) {
  std::vector<Communication> found;
  for (const Communication& c : step.communications) {
    if (c.dimension == dimension) found.push_back(c);
  }
  return found;
}

TEST(Step, TensorParallelRanksReduceTheirActivations) {
  const TrainingStep step = step_of(four_layers(), {.tensor = 2, .pipeline = 2, .data = 3});
  const auto passes = of(step, Dimension::kTensor);
  EXPECT_EQ(passes.size(), 2u * 3 * 3 * 2);  // stages, replicas, micro-batches, directions
  for (const Communication& c : passes) {
    EXPECT_EQ(c.kind, CommunicationKind::kAllReduce);
    EXPECT_EQ(c.bytes, 2u * 2 * 4000);  // layers of a stage, twice a layer
    EXPECT_EQ(c.bytes_per_rank(), 16'000u);
    EXPECT_EQ(c.ranks[0] / 2, c.ranks[1] / 2);
  }
}

TEST(Step, ComputesForwardHalfAsLongAsBackward) {
  const TrainingStep step = step_of(four_layers(), {.tensor = 2, .pipeline = 2, .data = 1});
  // 2 FLOPs x 8000 / 4 parameters x 20 tokens at 1 GFLOP/s.
  EXPECT_EQ(step.communications[0].compute, 80us);
  EXPECT_EQ(of(step, Dimension::kTensor).back().compute, 160us);
}

TEST(Step, PipelineNeighboursSendTheirShareForwardAndBackward) {
  const TrainingStep step = step_of(four_layers(), {.tensor = 2, .pipeline = 3, .data = 1});
  const auto sends = of(step, Dimension::kPipeline);
  EXPECT_EQ(sends.size(), 2u * 3 * 2 * 2);  // boundaries, micro-batches, directions, shards
  size_t forward = 0;
  for (const Communication& c : sends) {
    EXPECT_EQ(c.bytes, 2000u);
    ASSERT_EQ(c.ranks.size(), 2u);
    EXPECT_EQ(c.ranks[0] % 2, c.ranks[1] % 2);
    EXPECT_EQ(std::max(c.ranks[0], c.ranks[1]) - std::min(c.ranks[0], c.ranks[1]), 2u);
    forward += c.ranks[1] > c.ranks[0];
  }
  EXPECT_EQ(forward * 2, sends.size());
}

TEST(Step, DataParallelRanksReduceGradientsAndGatherParameters) {
  const TrainingStep step = step_of(four_layers(), {.tensor = 2, .pipeline = 2, .data = 4});
  const auto ends = of(step, Dimension::kData);
  ASSERT_EQ(ends.size(), 2u * 2 * 2);  // stages, shards, both
  EXPECT_EQ(ends[0].kind, CommunicationKind::kReduceScatter);
  EXPECT_EQ(ends[0].bytes, 2000u * 4);
  EXPECT_EQ(ends[0].bytes_per_rank(), 6000u);
  EXPECT_THAT(ends[0].ranks, testing::ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(ends[1].kind, CommunicationKind::kAllGather);
  EXPECT_EQ(ends[1].bytes, 2000u * 2);
}

TEST(Step, NothingWaitsForWhatComesLater) {
  for (const uint32_t stages : {1u, 2u, 4u}) {
    for (const uint32_t micro_batches : {1u, 2u, 7u}) {
      TrainingModel m = four_layers();
      m.micro_batches = micro_batches;
      const TrainingStep step = step_of(m, {.tensor = 1, .pipeline = stages, .data = 2});
      for (uint32_t i = 0; i < step.communications.size(); ++i) {
        for (const uint32_t before : step.communications[i].after) EXPECT_LT(before, i);
      }
      // Every micro-batch passes every stage in both directions.
      EXPECT_EQ(of(step, Dimension::kTensor).size(), 2u * stages * micro_batches * 2);
    }
  }
}

TEST(Step, AStageWaitsForItsInputAndForItself) {
  TrainingModel m = four_layers();
  m.micro_batches = 1;
  const auto all = step_of(m, {.tensor = 1, .pipeline = 2, .data = 1}).communications;
  // forward 0, send, forward 1, backward 1, send, backward 0
  ASSERT_EQ(all.size(), 6u);
  EXPECT_TRUE(all[0].after.empty());
  EXPECT_THAT(all[1].after, testing::ElementsAre(0));
  EXPECT_THAT(all[1].ranks, testing::ElementsAre(0, 1));
  EXPECT_THAT(all[2].after, testing::ElementsAre(1));
  EXPECT_THAT(all[3].after, testing::ElementsAre(2));
  EXPECT_THAT(all[4].ranks, testing::ElementsAre(1, 0));
  EXPECT_THAT(all[5].after, testing::UnorderedElementsAre(4, 0));
}

TEST(Step, ParametersFollowFromTheShape) {
  const double gpt3 = parameters_of({});
  EXPECT_GT(gpt3, 174e9);
  EXPECT_LT(gpt3, 176e9);
  EXPECT_EQ(parameters_of({.parameters = 7e9}), 7e9);
}

TEST(Step, RefusesWhatDoesNotFitTogether) {
  EXPECT_THROW(step_of(four_layers(), {.pipeline = 5}), std::invalid_argument);
  EXPECT_THROW(step_of(four_layers(), {.data = 0}), std::invalid_argument);
  EXPECT_THROW(step_of(four_layers(), {.data = 20'000'000}), std::invalid_argument);
  TrainingModel m = four_layers();
  m.micro_batches = 1'000'000'000;
  EXPECT_THROW(step_of(m, {.pipeline = 2}), std::invalid_argument);
  m.micro_batches = 0;
  EXPECT_THROW(step_of(m, {}), std::invalid_argument);
  m = four_layers(), m.flops = 0;
  EXPECT_THROW(step_of(m, {}), std::invalid_argument);
}

}  // namespace
}  // namespace megascale
