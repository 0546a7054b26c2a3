// The little JSON that events need: strings and numbers, appended to a line.
#pragma once
#include <string>
#include <string_view>

namespace megascale {

// Appends `text` in quotes, escaped; bytes that are not UTF-8 become U+FFFD, and what is over `limit` bytes
// is cut.
void append_json_string(std::string& line, std::string_view text, size_t limit = 4096);

// Appends the shortest text that reads back as `value`; null when it is infinite or not a number.
void append_json_number(std::string& line, double value);

}  // namespace megascale
