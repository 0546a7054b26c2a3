// Lists as people write them: "a,b,c".
#pragma once
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace megascale {

inline std::vector<std::string> split(std::string_view list, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(separator, at), list.size());
    parts.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// What an option was given. Throws std::invalid_argument where it, or an entry, is empty.
inline std::vector<std::string> list_of(const std::string& text, const std::string& option) {
  if (text.empty()) throw std::invalid_argument(option + " is missing; --help has examples");
  std::vector<std::string> list = split(text, ',');
  if (std::find(list.begin(), list.end(), "") != list.end())
    throw std::invalid_argument(option + " has an empty entry: `" + text + "'");
  return list;
}

}  // namespace megascale
