#include "fabric_tools/sim/deliveries.h"

#include <gtest/gtest.h>

namespace megascale::sim {
namespace {

TEST(Sample, AQuantileIsTheLeastValueThatThatShareDoesNotExceed) {
  Sample two(1);
  two.add(3);
  two.add(1);
  EXPECT_EQ(two.quantiles().p50, 1);
  EXPECT_EQ(two.quantiles().p99, 3);
  EXPECT_EQ(two.quantiles().mean, 2);
  Sample hundred(1);
  for (int i = 1; i <= 100; ++i) hundred.add(i);
  EXPECT_EQ(hundred.quantiles().p50, 50);
  EXPECT_EQ(hundred.quantiles().p99, 99);
  EXPECT_EQ(hundred.quantiles().max, 100);
}

}  // namespace
}  // namespace megascale::sim
