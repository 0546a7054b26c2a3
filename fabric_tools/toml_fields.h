// One table of a TOML file, read key by key. Whatever is missing, unknown, of the wrong kind or out of range
// is told with file and line, as std::invalid_argument.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "cc/units.h"
#include "transport/base/toml.h"

namespace megascale {

// A value as a command line would have it: a text, a number, on or off. Nothing: a table, an array, a date.
std::optional<std::string> plain_text_of(const toml::node&);

class TomlFields {
 public:
  // `what` is how complaints call the table: "[hosts]". A key that is not `known` is complained of at once.
  TomlFields(const toml::table&, const std::string& source, std::string what,
             std::initializer_list<std::string_view> known);

  bool has(std::string_view key) const { return table_.contains(key); }

  // Without a fallback the key is needed.
  std::string text(std::string_view key, std::optional<std::string> fallback = {}) const;
  uint32_t count(std::string_view key, uint32_t least, uint32_t most,
                 std::optional<uint32_t> fallback = {}) const;
  bool yes(std::string_view key, bool fallback) const;

  // The table `key` in this one; the tables of the array `key`, none when it is absent.
  const toml::table& table(std::string_view key) const;
  const toml::array* tables(std::string_view key) const;

  [[noreturn]] void fail(const std::string& why) const;  // about the table as a whole
  [[noreturn]] void fail(const toml::node& where, const std::string& why) const;

 protected:
  const toml::node* find(std::string_view key, bool needed) const;

 private:
  const toml::table& table_;
  const std::string& source_;
  std::string what_;
};

}  // namespace megascale
