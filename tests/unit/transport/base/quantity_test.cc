#include "transport/base/quantity.h"

#include <gtest/gtest.h>

namespace megascale {
namespace {

TEST(Quantity, DurationsAsPeopleWriteThem) {
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("2s"), 2s);
  EXPECT_EQ(parse_duration("2min"), 2min);
  EXPECT_EQ(parse_duration("1.5h"), 90min);
  EXPECT_EQ(parse_duration("7us"), 7us);
  EXPECT_EQ(parse_duration("7ns"), 7ns);
  EXPECT_EQ(parse_duration("0"), 0s);
  EXPECT_EQ(parse_duration("0.25"), 250ms) << "a bare number is seconds";
}

TEST(Quantity, SizesAreBinaryOrDecimal) {
  EXPECT_EQ(parse_size("512K"), 512u << 10);
  EXPECT_EQ(parse_size("4M"), 4u << 20);
  EXPECT_EQ(parse_size("4MiB"), 4u << 20);
  EXPECT_EQ(parse_size("1.5K"), 1536u);
  EXPECT_EQ(parse_size("64k"), 64u << 10);
  EXPECT_EQ(parse_size("17"), 17u);
  EXPECT_EQ(parse_size("17B"), 17u);
  EXPECT_EQ(parse_size("2MB"), 2'000'000u);
  EXPECT_EQ(parse_size("1.001KB"), 1001u);
  EXPECT_EQ(parse_size("3TB"), 3'000'000'000'000u);
}

TEST(Quantity, RatesArePowersOf1000) {
  EXPECT_EQ(parse_rate("10G"), Rate::gigabits(10));
  EXPECT_EQ(parse_rate("500M"), Rate{5e8});
  EXPECT_EQ(parse_rate("1e9"), Rate::gigabits(1));
  EXPECT_EQ(parse_rate("unlimited"), Rate::unlimited());
}

TEST(Quantity, WhatIsNoQuantityIsRefused) {
  for (const char* wrong : {"",   " ",    "s",   "ms",  "-1s",  "+1s",   "1 s",   " 1s", "1s ",  "1S",
                            "1m", "0x10", "inf", "nan", "infs", "1e999", "1e30h", "1s1", "1,5s", "--1"}) {
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
  }
  for (const char* wrong : {"", "K", "KB", "-1", "-1KB", "1kB", "1kiB", "1BiB", "1 KB", "0.5", "1.0001K",
                            "1.0001KB", "1e30", "1e30GB", "iB", "1iB", "infMB", "nan"}) {
    EXPECT_FALSE(parse_size(wrong)) << wrong;
  }
  for (const char* wrong : {"", "G", "-1G", "10g", "10Gb", "fast", "inf", "1e19"})
    EXPECT_FALSE(parse_rate(wrong)) << wrong;
  for (const char* wrong : {"", "-", "--1", "1x", "nan", "0x1"}) EXPECT_FALSE(parse_number(wrong)) << wrong;
  EXPECT_EQ(parse_number("-12"), -12);
}

TEST(Quantity, WhatIsPrintedReadsBack) {
  for (const Duration d :
       {Duration(0s), Duration(1ns), Duration(1500ns), Duration(250ms), Duration(90s), Duration(24h)}) {
    EXPECT_EQ(parse_duration(text_of(d)), d) << text_of(d);
  }
  for (const Bytes n : {Bytes{0}, Bytes{1}, Bytes{1023}, Bytes{1024}, Bytes{512} << 10, Bytes{3} << 30}) {
    EXPECT_EQ(parse_size(size_text(n)), n) << size_text(n);
  }
  for (const Rate r : {Rate{1e6}, Rate{2.5e9}, Rate{123456789}, Rate::unlimited()}) {
    EXPECT_EQ(parse_rate(text_of(r)), r) << text_of(r);
  }
  EXPECT_EQ(text_of(Duration(250ms)), "250ms");
  EXPECT_EQ(text_of(Duration(120s)), "2min");
  EXPECT_EQ(size_text(512 << 10), "512K");
  EXPECT_EQ(text_of(Rate::gigabits(10)), "10G");
}

}  // namespace
}  // namespace megascale
