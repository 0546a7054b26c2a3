#include <algorithm>

#include "transport/base/quantity.h"
#include "transport/base/settings_table.h"
#include "transport/base/toml.h"

namespace megascale {
namespace {

using Complaints = std::vector<std::string>;

std::string place(const std::string& name, const toml::source_region& where) {
  return name + ":" + std::to_string(where.begin.line);
}

// A value as one would write it in the environment; nothing when it is a table, an array or a date.
std::optional<std::string> text_of_value(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point()) {
    char text[32];
    snprintf(text, sizeof text, "%.17g", number->get());
    return text;
  }
  return {};
}

bool holds_secret(std::string_view text) { return text.find("secret") != std::string_view::npos; }

void apply_key(std::string_view key, const toml::node& node, const std::string& name, Settings& s,
               Complaints* complaints) {
  const auto rows = setting_rows();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const SettingRow& r) { return key_of(r) == key; });
  const std::string where = place(name, node.source()) + ": ";
  if (row == rows.end()) {
    std::vector<std::string> known;
    for (const SettingRow& r : rows) {
      if (r.in_file) known.push_back(key_of(r));
    }
    complaints->push_back(where + "the key " + quoted(key) + " in [megascale] is unknown" +
                          did_you_mean(key, known) + "; `megascale-fabric env` lists all. It is ignored.");
  } else if (!row->in_file) {
    complaints->push_back(where + std::string(key) + " can only be set in the environment, as " +
                          variable_of(*row) + ". It is ignored.");
  } else if (const auto text = text_of_value(node)) {
    if (auto wrong = apply(*row, *text, s, where + std::string(key))) complaints->push_back(*wrong);
  } else {
    complaints->push_back(where + std::string(key) +
                          " must be a text or a number; accepted: " + accepted_by(*row) + ". It is ignored.");
    if (holds_secret(key)) s.secret_unreadable = true;
  }
}

// The names and ranges of these are the registry's business.
void apply_cc(std::string_view key, const toml::node& node, const std::string& name, Settings& s,
              Complaints* complaints) {
  std::optional<double> value = node.value<double>();
  if (!value && node.is_string()) {
    const auto rate = parse_rate(node.as_string()->get());
    if (rate) value = rate->bits_per_second;
  }
  if (value) {
    s.cc_parameters[std::string(key)] = *value;
  } else {
    complaints->push_back(place(name, node.source()) + ": " + quoted(key) +
                          " in [cc] must be a number, or a rate such as \"10G\". It is ignored.");
  }
}

// What the parser says may quote the text, and the text may hold the secret.
std::string without_quotation(std::string_view description, std::string_view text) {
  if (holds_secret(text)) return "it is not TOML";
  return one_line(description, 200);
}

}  // namespace

void apply_toml(std::string_view text, const std::string& name, Settings& s, Complaints* complaints) {
  const std::string shown = one_line(name, 200);
  const ParsedToml parsed = parse_toml(text);
  if (!parsed.table) {
    complaints->push_back(shown + ":" + std::to_string(parsed.line) + ": malformed TOML at column " +
                          std::to_string(parsed.column) + ": " + without_quotation(parsed.description, text) +
                          ". Nothing of the file is used.");
    if (holds_secret(text)) s.secret_unreadable = true;
    return;
  }
  for (const auto& [key, node] : *parsed.table) {
    const toml::table* table = node.as_table();
    const std::string_view table_name = key.str();
    if (!table || (table_name != "megascale" && table_name != "cc")) {
      complaints->push_back(place(shown, node.source()) + ": " + quoted(table_name) +
                            " is unknown; this file has the tables [megascale] and [cc]. It is ignored.");
      continue;
    }
    const auto apply_one = table_name == "cc" ? apply_cc : apply_key;
    for (const auto& [inner_key, inner] : *table) apply_one(inner_key.str(), inner, shown, s, complaints);
  }
}

}  // namespace megascale
