#include "trainer/command/loss_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace megascale::trainer {
namespace {

TEST(LossCurve, DrawsAFallingLine) {
  const std::vector<double> losses = {4, 3, 2, 1};
  EXPECT_EQ(loss_curve(losses, {.columns = 10, .rows = 4}, false),
            "   4.000 |*\n"
            "   3.000 | *\n"
            "   2.000 |  *\n"
            "   1.000 |   *\n"
            "    loss +----\n"
            "          1  4 steps\n");
}

TEST(LossCurve, AveragesWhatDoesNotFit) {
  const std::vector<double> losses = {5, 3, 1, 1};
  const std::string drawing = loss_curve(losses, {.columns = 2, .rows = 2}, false);
  EXPECT_EQ(drawing.substr(0, 26), "   4.000 |*\n   1.000 | *\n ") << drawing;
}

TEST(LossCurve, HasOnePointAColumnWhateverTheLosses) {
  for (const size_t count : {1, 2, 63, 64, 65, 1000}) {
    std::vector<double> losses(count);
    for (size_t i = 0; i < count; ++i) losses[i] = static_cast<double>((i * 37) % 11);
    const std::string drawing = loss_curve(losses, {}, false);
    EXPECT_EQ(std::count(drawing.begin(), drawing.end(), '*'),
              static_cast<long>(std::min<size_t>(count, 64)));
    EXPECT_NE(drawing.find(std::to_string(count) + " steps"), std::string::npos);
  }
  EXPECT_EQ(loss_curve({}, {}, false), "");
  const std::vector<double> flat(10, 2.5);
  EXPECT_NE(loss_curve(flat, {}, true).find("••••••••••"), std::string::npos);
}

TEST(LossCurve, KeepsToAsciiUnlessTheLocaleSaysOtherwise) {
  unsetenv("LC_ALL"), unsetenv("LC_CTYPE"), unsetenv("LANG");
  EXPECT_FALSE(terminal_draws_unicode());
  setenv("LANG", "en_GB.UTF-8", 1);
  EXPECT_TRUE(terminal_draws_unicode());
  setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(terminal_draws_unicode());
  setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(terminal_draws_unicode());
}

}  // namespace
}  // namespace megascale::trainer
