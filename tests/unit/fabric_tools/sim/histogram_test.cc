#include "fabric_tools/sim/histogram.h"

#include <gtest/gtest.h>

namespace megascale::sim {
namespace {

TEST(Histogram, IsExactForSmallValues) {
  Histogram h;
  for (uint64_t v = 0; v < 100; ++v) h.add(v);
  EXPECT_EQ(h.quantile(0.5), 50u);
  EXPECT_EQ(h.quantile(0.99), 99u);
  EXPECT_DOUBLE_EQ(h.quantiles().mean, 49.5);
}

TEST(Histogram, AQuantileIsAtMostOnePartInSixtyFourTooHigh) {
  for (const uint64_t v : {127ull, 128ull, 129ull, 4160ull, 1'000'003ull, 1ull << 40, ~0ull}) {
    Histogram h;
    h.add(0);
    h.add(v);
    h.add(v);
    h.add(~0ull);
    EXPECT_GE(h.quantile(0.5), v);
    EXPECT_LE(static_cast<double>(h.quantile(0.5)), static_cast<double>(v) * (1 + 1.0 / 64));
  }
}

TEST(Histogram, SumsOfHistogramsAndNoneAtAll) {
  Histogram a, b;
  EXPECT_EQ(a.quantiles().max, 0);
  a.add(1);
  b.add(3);
  a.add(b);
  EXPECT_EQ(a.count(), 2u);
  EXPECT_DOUBLE_EQ(a.quantiles().mean, 2);
  EXPECT_DOUBLE_EQ(a.quantiles().max, 3);
}

}  // namespace
}  // namespace megascale::sim
