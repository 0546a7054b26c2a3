#include "fabric_tools/sim/runs/html_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fabric_tools/sim/runs/well_formed.h"

namespace megascale::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Plot, NamesAreEscaped) {
  const std::string svg = plot({"a<b & \"c\"", "x", "y"}, {{0, "<script>", {{0, 1}, {1, 2}}}});
  expect_well_formed(svg);
  EXPECT_THAT(svg, AllOf(HasSubstr("a&lt;b &amp; &quot;c&quot;"), Not(HasSubstr("<script>"))));
}

TEST(Plot, EmptyAndFlatCurvesHaveAxesToo) {
  for (const std::vector<Curve>& curves :
       {std::vector<Curve>{}, {{0, "flat", {{0, 0}, {0, 0}}}}, {{0, "one", {{1, 1}}}}}) {
    for (bool log : {false, true}) {
      const std::string svg = plot({"t", "x", "y", log, log ? 1.0 : 0.0}, curves);
      expect_well_formed(svg);
      EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
    }
  }
  expect_well_formed(heat_map("none", {{"row", {}}}));
}

TEST(Plot, TicksAreRound) {
  EXPECT_THAT(round_steps(0, 100, 5), testing::ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(round_steps(0, 7, 5), testing::ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(round_steps(3, 3, 5).size(), 1u);
}

}  // namespace
}  // namespace megascale::sim
