#include "fabric_tools/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace megascale {

std::string text_table(const std::vector<std::vector<std::string>>& rows, std::string_view sides) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (row.size() == 1) continue;
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = row.size() == 1 ? row[0] : "";
    for (size_t i = 0; i < row.size() && row.size() > 1; ++i) {
      if (i > 0) line += "  ";
      const bool right = sides[std::min(i, sides.size() - 1)] == 'r';
      line += right ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace megascale
