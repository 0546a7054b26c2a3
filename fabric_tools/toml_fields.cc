#include "fabric_tools/toml_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace megascale {

std::optional<std::string> plain_text_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto on = node.value_exact<bool>()) return std::string(*on ? "on" : "off");
  if (const auto whole = node.value_exact<int64_t>()) return fmt::format("{}", *whole);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  return {};
}

TomlFields::TomlFields(const toml::table& table, const std::string& source, std::string what,
                       std::initializer_list<std::string_view> known)
    : table_(table), source_(source), what_(std::move(what)) {
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    fail(value, fmt::format("unknown key `{}` in {}; known are {}", std::string(key.str()).substr(0, 60),
                            what_, fmt::join(known, ", ")));
  }
}

const toml::node* TomlFields::find(std::string_view key, bool needed) const {
  const toml::node* node = table_.get(key);
  if (!node && needed) fail(fmt::format("{} lacks `{}`", what_, key));
  return node;
}

std::string TomlFields::text(std::string_view key, std::optional<std::string> fallback) const {
  const toml::node* node = find(key, !fallback);
  if (!node) return *fallback;
  const std::optional<std::string> value = node->is_string() ? node->value<std::string>() : std::nullopt;
  if (!value || value->empty() || value->size() > 200)
    fail(*node, fmt::format("`{}` must be a string of 1 to 200 characters", key));
  for (const char c : *value) {
    if (c <= ' ' || c == 0x7f)
      fail(*node, fmt::format("`{}` must have no spaces or control characters", key));
  }
  return *value;
}

uint32_t TomlFields::count(std::string_view key, uint32_t least, uint32_t most,
                           std::optional<uint32_t> fallback) const {
  const toml::node* node = find(key, !fallback);
  if (!node) return *fallback;
  const std::optional<int64_t> value = node->is_integer() ? node->value<int64_t>() : std::nullopt;
  if (!value || *value < int64_t{least} || *value > int64_t{most})
    fail(*node, fmt::format("`{}` must be a whole number, {} to {}", key, least, most));
  return static_cast<uint32_t>(*value);
}

bool TomlFields::yes(std::string_view key, bool fallback) const {
  const toml::node* node = find(key, false);
  if (!node) return fallback;
  const std::optional<bool> value = node->is_boolean() ? node->value<bool>() : std::nullopt;
  if (!value) fail(*node, fmt::format("`{}` must be true or false", key));
  return *value;
}

const toml::table& TomlFields::table(std::string_view key) const {
  const toml::node* node = find(key, true);
  if (!node->is_table()) fail(*node, fmt::format("`{}` must be a table: [{}]", key, key));
  return *node->as_table();
}

const toml::array* TomlFields::tables(std::string_view key) const {
  const toml::node* node = find(key, false);
  if (!node) return nullptr;
  const toml::array* array = node->as_array();
  const bool good = array && std::all_of(array->begin(), array->end(),
                                         [](const toml::node& element) { return element.is_table(); });
  if (!good) fail(*node, fmt::format("`{}` must be tables: [[{}]]", key, key));
  return array;
}

void TomlFields::fail(const std::string& why) const { fail(table_, why); }

void TomlFields::fail(const toml::node& where, const std::string& why) const {
  throw std::invalid_argument(fmt::format("{}:{}: {}", source_, where.source().begin.line, why));
}

}  // namespace megascale
