#include "fabric_tools/bench/options.h"

#include <gtest/gtest.h>

namespace megascale {
namespace {

TEST(BenchOptions, SizesAreThoseOfTheWholeProject) {
  EXPECT_EQ(bench_size("64K"), 65536U);
  EXPECT_EQ(bench_size("4m"), 4U << 20);
  EXPECT_EQ(bench_size("100KB"), 100'000U);
  EXPECT_EQ(bench_size("1T"), uint64_t{1} << 40);
  EXPECT_EQ(bench_size("0"), 0U);
}

TEST(BenchOptions, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "K", "-1", "1.00001K", "4MB!", "1X", "2T", "99999999999999999999", "1025G"}) {
    EXPECT_THROW(bench_size(text), std::invalid_argument) << text;
  }
}

TEST(BenchOptions, StepsMultiplyOrAdd) {
  BenchOptions o;
  o.smallest = 8, o.largest = 600, o.factor = 4;
  EXPECT_EQ(sizes_of(o), (std::vector<uint64_t>{8, 32, 128, 512}));
  o.step = 200;
  EXPECT_EQ(sizes_of(o), (std::vector<uint64_t>{8, 208, 408}));
  o.largest = o.smallest;
  EXPECT_EQ(sizes_of(o), std::vector<uint64_t>{8});
}

TEST(BenchOptions, TinyFactorsEnd) {
  BenchOptions o;
  o.smallest = 0, o.largest = 4, o.factor = 1.01;
  EXPECT_EQ(sizes_of(o), (std::vector<uint64_t>{0, 1, 2, 3, 4}));
}

TEST(BenchOptions, BarrierHasOneSize) {
  BenchOptions o;
  o.collective = Collective::barrier;
  EXPECT_EQ(sizes_of(o), std::vector<uint64_t>{0});
}

}  // namespace
}  // namespace megascale
