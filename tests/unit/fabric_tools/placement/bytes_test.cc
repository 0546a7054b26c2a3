#include "fabric_tools/placement/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fabric_tools/placement/small_fabric.h"

namespace megascale {
namespace {

using testing::ElementsAre;

constexpr size_t kTensor = 0, kPipeline = 1, kData = 2;

// Activations of 4,000 bytes; 16,000 parameters.
TrainingModel small_model() {
  return {.layers = 2,
          .hidden = 100,
          .sequence = 20,
          .parameters = 16'000,
          .micro_batches = 3,
          .value_bytes = 2,
          .gradient_bytes = 4};
}

TEST(BytesByTier, CountsASmallJobAsByHand) {
  const Topology t = small_fabric();
  const Reach reach(t);
  // Stage 0 on hosts 0 and 1 (a set), stage 1 on hosts 2 and 3 (the pod's other set).
  const Parallel p{.tensor = 2, .pipeline = 2, .data = 2};
  const BytesByTier b = bytes_by_tier(small_model(), p, in_order(t, {0, 1, 2, 3}, 2, p), reach);
  // 2 stages x 2 replicas x 3 micro-batches x 2 directions x 2 ranks, each 2 (n-1)/n x (1 layer x 2 x 4000).
  EXPECT_EQ(b.inside_host[kTensor], 2 * 2 * 3 * 2 * 2 * 8000.0);
  EXPECT_THAT(b.at_tier[kTensor], ElementsAre(0, 0, 0));
  // 2 replicas x 2 shards x 3 micro-batches x 2 directions x half an activation, by the aggregation.
  EXPECT_EQ(b.inside_host[kPipeline], 0);
  EXPECT_THAT(b.at_tier[kPipeline], ElementsAre(0, 2 * 2 * 3 * 2 * 2000.0, 0));
  // 2 stages x 2 shards x 2 ranks, each half of 4,000 parameters: 4 bytes to reduce, 2 to gather; by ToRs.
  EXPECT_THAT(b.at_tier[kData], ElementsAre(2 * 2 * 2 * 2000 * 6.0, 0, 0));
  EXPECT_EQ(b.sum_at_tier(1), b.at_tier[kPipeline][1]);
  EXPECT_EQ(b.inside_host_sum(), b.inside_host[kTensor]);
}

TEST(BytesByTier, ABadOrderSendsTheSameBytesHigher) {
  const Topology t = small_fabric();
  const Reach reach(t);
  const Parallel p{.tensor = 2, .pipeline = 2, .data = 2};
  const BytesByTier good = bytes_by_tier(small_model(), p, place(t, {0, 4, 1, 5}, 2, p), reach);
  const BytesByTier bad = bytes_by_tier(small_model(), p, in_order(t, {0, 4, 1, 5}, 2, p), reach);
  EXPECT_EQ(bad.at_tier[kData][2], good.at_tier[kData][0]);
  EXPECT_EQ(good.at_tier[kData][2], 0);
  double sums[2] = {};
  for (uint32_t tier = 0; tier < 3; ++tier)
    sums[0] += good.sum_at_tier(tier), sums[1] += bad.sum_at_tier(tier);
  EXPECT_EQ(sums[0], sums[1]);
}

TEST(BytesByTier, ReplicasOfOneHostReduceInsideIt) {
  const Topology t = small_fabric();
  const Reach reach(t);
  const Parallel p{.tensor = 1, .pipeline = 1, .data = 4};
  const BytesByTier b = bytes_by_tier(small_model(), p, in_order(t, {0, 1}, 2, p), reach);
  // A ring of 4 over two hosts: two of its four hops leave a host. Each is 3/4 of 16,000 x 6 bytes.
  EXPECT_EQ(b.inside_host[kData], 2 * 0.75 * 16'000 * 6);
  EXPECT_THAT(b.at_tier[kData], ElementsAre(2 * 0.75 * 16'000 * 6, 0, 0));
}

}  // namespace
}  // namespace megascale
