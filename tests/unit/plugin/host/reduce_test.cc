#include "plugin/host/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace megascale::host {
namespace {

template <class T>
std::vector<T> reduced(std::vector<T> a, const std::vector<T>& b, DataType type, ReduceOp op) {
  std::vector<T> out(a.size());
  reduce(out.data(), a.data(), b.data(), a.size(), type, op);
  reduce(a.data(), a.data(), b.data(), a.size(), type, op);  // in place: the same
  EXPECT_EQ(std::memcmp(out.data(), a.data(), a.size() * sizeof(T)), 0);
  return out;
}

TEST(Reduce, IntegersWrap) {
  constexpr auto most = std::numeric_limits<int32_t>::max();
  const std::vector<int32_t> a{most, -5, 7, 100000}, b{1, 3, -9, 100000};
  EXPECT_EQ(reduced(a, b, DataType::i32, ReduceOp::sum),
            (std::vector<int32_t>{std::numeric_limits<int32_t>::min(), -2, -2, 200000}));
  EXPECT_EQ(reduced(a, b, DataType::i32, ReduceOp::prod), (std::vector<int32_t>{most, -15, -63, 1410065408}));
  EXPECT_EQ(reduced(a, b, DataType::i32, ReduceOp::min), (std::vector<int32_t>{1, -5, -9, 100000}));
  EXPECT_EQ(reduced(a, b, DataType::i32, ReduceOp::max), (std::vector<int32_t>{most, 3, 7, 100000}));
}

TEST(Reduce, SignMatters) {
  const std::vector<uint8_t> a{200, 1}, b{100, 255};
  EXPECT_EQ(reduced(a, b, DataType::u8, ReduceOp::max), (std::vector<uint8_t>{200, 255}));
  EXPECT_EQ(reduced(a, b, DataType::i8, ReduceOp::max), (std::vector<uint8_t>{100, 1}));
  EXPECT_EQ(reduced(a, b, DataType::u8, ReduceOp::sum), (std::vector<uint8_t>{44, 0}));
}

TEST(Reduce, LongArraysOfEveryTypeMatchOneByOne) {
  const size_t count = 1003;  // a vector loop and its rest
  std::vector<double> a(count), b(count), expected(count);
  for (size_t i = 0; i < count; ++i) {
    a[i] = static_cast<double>(i) * 0.25 - 50;
    b[i] = 1.0 / static_cast<double>(i + 1);
    expected[i] = a[i] * b[i];
  }
  EXPECT_EQ(reduced(a, b, DataType::f64, ReduceOp::prod), expected);
  std::vector<uint64_t> c(count), d(count), sum(count);
  for (size_t i = 0; i < count; ++i) {
    c[i] = i << 40;
    d[i] = ~i;
    sum[i] = c[i] + d[i];
  }
  EXPECT_EQ(reduced(c, d, DataType::u64, ReduceOp::sum), sum);
}

// Rounds with the C library's arithmetic in double, where every bf16 sum of two is exact.
uint16_t nearest(double value) {
  const auto narrow = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  const uint16_t down = static_cast<uint16_t>(bits >> 16);
  const double low = bf16_to_float(down), high = bf16_to_float(static_cast<uint16_t>(down + 1));
  const double below = std::abs(narrow - low), above = std::abs(high - narrow);
  if (below != above) return below < above ? down : static_cast<uint16_t>(down + 1);
  return (down & 1) == 0 ? down : static_cast<uint16_t>(down + 1);
}

TEST(Reduce, Bf16RoundsToNearestEven) {
  std::vector<uint16_t> a, b, expected;
  for (uint32_t i = 0; i < 20000; ++i) {
    const auto x = static_cast<uint16_t>(0x3f00 + i % 997), y = static_cast<uint16_t>(0x3e80 + i * 31 % 1009);
    a.push_back(x);
    b.push_back(y);
    expected.push_back(nearest(static_cast<float>(bf16_to_float(x) + bf16_to_float(y))));
  }
  EXPECT_EQ(reduced(a, b, DataType::bf16, ReduceOp::sum), expected);
  EXPECT_EQ(float_to_bf16(1.00390625F), 0x3f80);  // halfway, to even
  EXPECT_EQ(float_to_bf16(1.01171875F), 0x3f82);  // halfway, to even upwards
}

TEST(Reduce, Bf16KeepsNotANumberAndInfinity) {
  uint32_t bits = 0x7f800001;  // a NaN whose upper half alone is infinity
  float strange;
  std::memcpy(&strange, &bits, sizeof strange);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(strange))));
  EXPECT_TRUE(std::isinf(bf16_to_float(float_to_bf16(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isinf(bf16_to_float(float_to_bf16(std::numeric_limits<float>::max()))));
}

TEST(DataType, NamesReadBack) {
  for (DataType type : kDataTypes) EXPECT_EQ(data_type(name_of(type)), type);
  for (ReduceOp op : kReduceOps) EXPECT_EQ(reduce_op(name_of(op)), op);
  EXPECT_EQ(data_type("bfloat16"), DataType::bf16);
  EXPECT_EQ(data_type("float"), DataType::f32);
  EXPECT_FALSE(data_type("half").has_value());
}

}  // namespace
}  // namespace megascale::host
