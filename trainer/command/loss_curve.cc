#include "trainer/command/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace megascale::trainer {
namespace {

std::vector<double> column_means(std::span<const double> losses, size_t columns) {
  std::vector<double> means(std::min(columns, losses.size()));
  for (size_t c = 0; c < means.size(); ++c) {
    const size_t first = c * losses.size() / means.size(), last = (c + 1) * losses.size() / means.size();
    double sum = 0;
    for (size_t i = first; i < last; ++i) sum += losses[i];
    means[c] = sum / static_cast<double>(last - first);
  }
  return means;
}

}  // namespace

std::string loss_curve(std::span<const double> losses, CurveSize size, bool unicode) {
  if (losses.empty() || size.columns == 0 || size.rows < 2) return "";
  const std::vector<double> means = column_means(losses, size.columns);
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double bottom = *low, span = std::max(*high - *low, 1e-9);
  const double steps = static_cast<double>(size.rows - 1);
  auto row_of = [&](double value) {
    return static_cast<size_t>(std::lround((value - bottom) / span * steps));
  };
  const char *point = unicode ? "•" : "*", *side = unicode ? "│" : "|";
  const char *corner = unicode ? "└" : "+", *floor = unicode ? "─" : "-";
  std::string drawing;
  for (size_t row = size.rows; row-- > 0;) {
    drawing += fmt::format("{:>8.3f} {}", bottom + span * static_cast<double>(row) / steps, side);
    size_t blanks = 0;  // put down only before a point: no line ends in blanks
    for (const double mean : means) {
      if (row_of(mean) != row) {
        ++blanks;
        continue;
      }
      drawing += std::string(blanks, ' ') + point;
      blanks = 0;
    }
    drawing += '\n';
  }
  drawing += "    loss " + std::string(corner);
  for (size_t c = 0; c < means.size(); ++c) drawing += floor;
  const std::string last = std::to_string(losses.size());
  const size_t room = std::max(means.size(), last.size() + 2);
  drawing += fmt::format("\n          1{:>{}} steps\n", last, room - 1);
  return drawing;
}

bool terminal_draws_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    const std::string_view text(value);
    return text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos;
  }
  return false;
}

}  // namespace megascale::trainer
