#include "fabric_tools/topology/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace megascale {
namespace {

[[noreturn]] void fail(std::string_view entry, const std::string& why) {
  throw std::invalid_argument(fmt::format("`{}' {}", entry.substr(0, 80), why));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The end of the entry that begins at `from`: a comma outside brackets, or the end of the text.
size_t end_of_entry(std::string_view text, size_t from) {
  bool inside = false;
  for (; from < text.size(); ++from) {
    if (text[from] == '[') inside = true;
    if (text[from] == ']') inside = false;
    if (text[from] == ',' && !inside) break;
  }
  return from;
}

uint64_t number(std::string_view digits, std::string_view entry) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !is_digit(digits[0]) ||
      digits.size() > 18)
    fail(entry, "needs numbers like 1-4 or 1,3 in its brackets");
  return value;
}

// "1-3,07" of a bracket.
std::vector<std::string> expand_bracket(std::string_view inside, std::string_view entry) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= inside.size();) {
    const size_t end = std::min(inside.find(',', at), inside.size());
    const std::string_view range = inside.substr(at, end - at);
    at = end + 1;
    if (range.empty()) fail(entry, "has an empty place in its brackets");
    const size_t dash = std::min(range.find('-'), range.size());
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash < range.size() ? range.substr(dash + 1) : first;
    if (first.empty() || last.empty()) fail(entry, "has a range without an end");
    const uint64_t from = number(first, entry), to = number(last, entry);
    if (from > to) fail(entry, "has a range that runs backward");
    if (to - from >= kMostHostsInList - names.size())
      fail(entry, fmt::format("stands for more than {} hosts", kMostHostsInList));
    for (uint64_t n = from; n <= to; ++n) names.push_back(fmt::format("{:0{}}", n, first.size()));
  }
  return names;
}

std::vector<std::string> expand_entry(std::string_view entry) {
  std::vector<std::string> names{""};
  const auto append = [&](const std::vector<std::string>& endings) {
    if (endings.size() > kMostHostsInList / names.size())
      fail(entry, fmt::format("stands for more than {} hosts", kMostHostsInList));
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& ending : endings) longer.push_back(name + ending);
    }
    names = std::move(longer);
  };
  for (size_t at = 0; at < entry.size();) {
    const size_t open = std::min(entry.find('[', at), entry.size());
    const std::string_view plain = entry.substr(at, open - at);
    if (plain.find_first_of("] \t/\"'\\") != std::string_view::npos)
      fail(entry, "is no name of a host, nor a list of them");
    append({std::string(plain)});
    if (open == entry.size()) break;
    const size_t close = entry.find(']', open);
    if (close == std::string_view::npos) fail(entry, "lacks a closing bracket");
    append(expand_bracket(entry.substr(open + 1, close - open - 1), entry));
    at = close + 1;
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view text) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = end_of_entry(text, at);
    const std::string_view entry = text.substr(at, end - at);
    at = end + 1;
    if (entry.empty()) fail(text, "has an empty entry");
    for (std::string& name : expand_entry(entry)) names.push_back(std::move(name));
    if (names.size() > kMostHostsInList) fail(text, fmt::format("is more than {} hosts", kMostHostsInList));
  }
  return names;
}

bool name_before(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto digits = [](std::string_view s, size_t& at) {
      while (at < s.size() && s[at] == '0') ++at;
      const size_t from = at;
      while (at < s.size() && is_digit(s[at])) ++at;
      return s.substr(from, at - from);
    };
    const std::string_view x = digits(a, i), y = digits(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

}  // namespace megascale
