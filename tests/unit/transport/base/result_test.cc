#include "transport/base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace megascale {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return {Code::invalid_argument, std::to_string(n) + " is odd"};
  return n / 2;
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> four = half(8);
  ASSERT_TRUE(four);
  EXPECT_EQ(four.value(), 4);
  const Result<int> none = half(7);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::invalid_argument);
  EXPECT_EQ(none.error().message, "7 is odd");
}

TEST(Result, HoldsWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(5);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(**r, 5);
  const std::unique_ptr<int> out = std::move(r).value();
  EXPECT_EQ(*out, 5);
}

TEST(Result, OfNothingIsAllRightUntilItIsNot) {
  const Result<void> well;
  EXPECT_TRUE(well.ok());
  const Result<void> ill(Code::remote, "gone");
  EXPECT_FALSE(ill.ok());
  EXPECT_EQ(ill.error().code, Code::remote);
}

}  // namespace
}  // namespace megascale
