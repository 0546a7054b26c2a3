#include "fabric_tools/topology/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/complaint.h"

namespace megascale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string list_complaint(std::string_view text) {
  return complaint([&] { expand_host_list(text); });
}

TEST(HostList, ExpandsRangesAndKeepsLeadingZeros) {
  EXPECT_THAT(expand_host_list("a,n[1-3,7],m[08-10]"),
              ElementsAre("a", "n1", "n2", "n3", "n7", "m08", "m09", "m10"));
}

TEST(HostList, CountsTheLastBracketFastest) {
  EXPECT_THAT(expand_host_list("r[0-1]n[1-2]x"), ElementsAre("r0n1x", "r0n2x", "r1n1x", "r1n2x"));
}

TEST(HostList, NamesWhatIsWrong) {
  EXPECT_THAT(list_complaint("n[1-"), HasSubstr("closing bracket"));
  EXPECT_THAT(list_complaint("n[3-1]"), HasSubstr("backward"));
  EXPECT_THAT(list_complaint("n[a]"), HasSubstr("numbers"));
  EXPECT_THAT(list_complaint("n[]"), HasSubstr("empty place"));
  EXPECT_THAT(list_complaint("n[1-]"), HasSubstr("without an end"));
  EXPECT_THAT(list_complaint("a,,b"), HasSubstr("empty entry"));
  EXPECT_THAT(list_complaint("a/0"), HasSubstr("no name of a host"));
  EXPECT_THAT(list_complaint(""), HasSubstr("empty entry"));
}

TEST(HostList, RefusesMoreThanFitsInsteadOfMakingThem) {
  EXPECT_THAT(list_complaint("n[0-999999999999]"), HasSubstr("more than 1000000 hosts"));
  EXPECT_THAT(list_complaint("a[1-9999]b[1-9999]"), HasSubstr("more than 1000000 hosts"));
}

TEST(HostList, OrdersNamesByTheirNumbers) {
  EXPECT_TRUE(name_before("n2", "n10"));
  EXPECT_FALSE(name_before("n10", "n2"));
  EXPECT_TRUE(name_before("a9", "b1"));
  EXPECT_TRUE(name_before("r1n9", "r1n10"));
  EXPECT_TRUE(name_before("n", "n1"));
  EXPECT_FALSE(name_before("n1", "n1"));
  EXPECT_NE(name_before("n01", "n1"), name_before("n1", "n01"));
}

}  // namespace
}  // namespace megascale
