// toml++ as this project uses it: headers only, without exceptions, and never the end of the process.
//
// toml++ 3.3 calls assert() on some malformed texts ("[[[" is one), and so ends the program that reads them.
// Here its assertions become a refusal like any other. Include this, not toml++ itself, and read texts with
// parse_toml().
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace megascale {
struct TomlAssertion {};
// A function, since the compiler warns of a bare `throw` where toml++ promises not to throw.
[[noreturn]] inline void toml_assertion_failed() { throw TomlAssertion(); }
}  // namespace megascale

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(expression) \
  (static_cast<bool>(expression) ? void() : ::megascale::toml_assertion_failed())
// With NDEBUG toml++ tells some compilers to assume what it would have asserted.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <toml++/toml.h>
#pragma GCC diagnostic pop
#pragma pop_macro("NDEBUG")

namespace megascale {

struct ParsedToml {
  std::optional<toml::table> table;  // nothing: malformed, for this reason at this place
  unsigned line = 0, column = 0;
  std::string description;  // may quote the text
};

namespace toml_detail {

// Nothing when the parser gave up with an assertion.
inline std::optional<ParsedToml> try_parse(std::string_view text) {
  try {
    toml::parse_result result = toml::parse(text);
    if (result) return ParsedToml{std::move(result).table(), 0, 0, {}};
    const auto& error = result.error();
    return ParsedToml{
        {}, error.source().begin.line, error.source().begin.column, std::string(error.description())};
  } catch (const TomlAssertion&) {
    return {};
  }
}

inline size_t end_of_line(std::string_view text, size_t line) {
  size_t end = 0;
  for (; line > 0 && end < text.size(); --line) end = std::min(text.find('\n', end), text.size() - 1) + 1;
  return end;
}

// The parser works from the front, so the shortest run of lines that it gives up on ends with the broken one.
inline ParsedToml locate(std::string_view text) {
  size_t good = 0, broken = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  while (good + 1 < broken) {
    const size_t middle = (good + broken) / 2;
    (try_parse(text.substr(0, end_of_line(text, middle))) ? good : broken) = middle;
  }
  return {{}, static_cast<unsigned>(broken), 1, "the line is malformed"};
}

}  // namespace toml_detail

inline ParsedToml parse_toml(std::string_view text) {
  auto parsed = toml_detail::try_parse(text);
  return parsed ? std::move(*parsed) : toml_detail::locate(text);
}

}  // namespace megascale
