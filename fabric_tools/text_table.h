// A table for people: columns as wide as their widest cell.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace megascale {

// `sides` has an `l' or an `r' for each column, the last one for all that follow: where it is aligned. A row
// of one cell is a line of its own.
std::string text_table(const std::vector<std::vector<std::string>>& rows, std::string_view sides);

}  // namespace megascale
