// AdamW and its schedule against steps worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/schedule.h"

namespace megascale::trainer {
namespace {

// A matrix of one weight (decays) and a bias of one weight (does not).
std::vector<Tensor> two_tensors() {
  return {{.name = "weight", .rows = 1, .columns = 1, .offset = 0, .decays = true},
          {.name = "bias", .rows = 1, .columns = 1, .offset = 1, .decays = false}};
}

TEST(AdamW, FollowsStepsWorkedOutByHand) {
  auto kernels = make_reference_kernels_double();
  AdamW<double> adamw(two_tensors(),
                      {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 0, .weight_decay = 0.5, .clip = 0}, *kernels);
  std::vector<double> weights = {1, 1}, gradients = {2, -2};

  // Step 1: m = 0.1 g, v = 0.01 g^2; corrected they are g and g^2, so the direction is the sign of g.
  // weight: 1 - 0.1 (1 + 0.5 * 1) = 0.85; bias: 1 + 0.1 = 1.1.
  EXPECT_NEAR(adamw.step(0.1, gradients, weights), std::sqrt(8.0), 1e-15);
  EXPECT_NEAR(weights[0], 0.85, 1e-15);
  EXPECT_NEAR(weights[1], 1.1, 1e-15);
  EXPECT_NEAR(adamw.means()[0], 0.2, 1e-15);
  EXPECT_NEAR(adamw.squares()[0], 0.04, 1e-15);

  // Step 2, g = (-1, 0): m = 0.9 * 0.2 - 0.1 = 0.08, v = 0.99 * 0.04 + 0.01 = 0.0496; 1 - 0.9^2 = 0.19,
  // 1 - 0.99^2 = 0.0199: direction (0.08 / 0.19) / sqrt(0.0496 / 0.0199) = 0.266700...
  gradients = {-1, 0};
  adamw.step(0.2, gradients, weights);
  const double direction = (0.08 / 0.19) / std::sqrt(0.0496 / 0.0199);
  EXPECT_NEAR(direction, 0.2667, 5e-5);
  EXPECT_NEAR(weights[0], 0.85 - 0.2 * (direction + 0.5 * 0.85), 1e-15);
  // bias: m = -0.18, v = 0.0396: direction -(0.18 / 0.19) / sqrt(0.0396 / 0.0199)
  EXPECT_NEAR(weights[1], 1.1 + 0.2 * (0.18 / 0.19) / std::sqrt(0.0396 / 0.0199), 1e-15);
}

TEST(AdamW, ClipsByTheNormOfAllGradientsTogether) {
  auto kernels = make_reference_kernels_double();
  AdamW<double> adamw(two_tensors(), {.clip = 1}, *kernels);
  std::vector<double> weights = {0, 0}, gradients = {3, 4};
  EXPECT_DOUBLE_EQ(adamw.step(0.1, gradients, weights), 5);
  EXPECT_NEAR(adamw.means()[0], 0.1 * 0.6, 1e-15);
  EXPECT_NEAR(adamw.means()[1], 0.1 * 0.8, 1e-15);
  gradients = {0.3, 0.4};  // below the limit: as they are
  adamw.step(0.1, gradients, weights);
  EXPECT_NEAR(adamw.means()[0], 0.9 * 0.06 + 0.1 * 0.3, 1e-15);
}

TEST(AdamW, RefusesVectorsOfAnotherSize) {
  auto kernels = make_reference_kernels_float();
  AdamW<float> adamw(two_tensors(), {}, *kernels);
  std::vector<float> three(3);
  EXPECT_THROW(adamw.step(0.1, three, three), std::invalid_argument);
}

TEST(Schedule, WarmsUpThenFollowsHalfACosine) {
  const Schedule schedule{.peak = 1, .floor = 0.1, .warmup = 4, .steps = 14};
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 1);
  EXPECT_NEAR(schedule.rate(9), 0.55, 1e-15);  // half way: the middle of 1 and 0.1
  EXPECT_GT(schedule.rate(13), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(14), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(1000), 0.1);
  for (size_t step = 5; step < 14; ++step) EXPECT_LT(schedule.rate(step), schedule.rate(step - 1));
}

TEST(Schedule, OfARunShorterThanItsWarmUpStaysInBounds) {
  const Schedule schedule{.peak = 1, .floor = 0.1, .warmup = 10, .steps = 5};
  for (size_t step = 0; step < 20; ++step) {
    EXPECT_GT(schedule.rate(step), 0);
    EXPECT_LE(schedule.rate(step), 1);
  }
}

}  // namespace
}  // namespace megascale::trainer
