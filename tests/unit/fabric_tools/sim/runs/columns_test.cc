#include "fabric_tools/sim/runs/columns.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megascale::sim {
namespace {

TEST(Columns, TheMedianIsTheMiddleOne) {
  EXPECT_EQ(spread_of({3, 1, 2}).median, 2);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(spread_of({4, NAN, 2}).least, 2);
  EXPECT_TRUE(std::isnan(spread_of({NAN}).median));
}

}  // namespace
}  // namespace megascale::sim
