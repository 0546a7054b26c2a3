#include "fabric_tools/sim/preset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "fabric_tools/file.h"
#include "fabric_tools/sim/model_fields.h"
#include "fabric_tools/toml_fields.h"
#include "transport/base/quantity.h"

// Set by the build: where the sources and the installed data are. Neither need exist when the program runs.
#ifndef MEGASCALE_SOURCE_CONFIGS
#define MEGASCALE_SOURCE_CONFIGS ""
#endif
#ifndef MEGASCALE_INSTALLED_CONFIGS
#define MEGASCALE_INSTALLED_CONFIGS ""
#endif

namespace megascale::sim {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFileBytes = 1 << 20;

std::vector<fs::path> folders(const std::string& given) {
  if (!given.empty()) return {given};
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> list;
  if (!std::string_view(MEGASCALE_SOURCE_CONFIGS).empty())
    list.push_back(fs::path(MEGASCALE_SOURCE_CONFIGS) / "cc");
  if (!program.empty()) {
    list.push_back(program / "../../configs/cc");
    list.push_back(program / "../share/megascale/cc");
  }
  if (!std::string_view(MEGASCALE_INSTALLED_CONFIGS).empty())
    list.push_back(fs::path(MEGASCALE_INSTALLED_CONFIGS) / "cc");
  return list;
}

// The first folder that exists: presets of two installations are never mixed.
std::optional<fs::path> folder_of(const std::string& given) {
  for (const fs::path& one : folders(given)) {
    std::error_code error;
    if (fs::is_directory(one, error)) return one;
  }
  return {};
}

fs::path file_of(const std::string& name, const std::string& folder) {
  if (name.ends_with(".toml")) return name;
  const auto where = folder_of(folder);
  if (!where) {
    std::string tried;
    for (const fs::path& one : folders(folder)) tried += (tried.empty() ? "" : ", ") + one.string();
    throw std::invalid_argument(fmt::format(
        "preset `{}': there is no folder of presets at {}; name one with --presets", name, tried));
  }
  std::string stem = name;
  std::replace(stem.begin(), stem.end(), ':', '-');
  fs::path file = *where / (stem + ".toml");
  std::error_code error;
  if (stem.find('/') == std::string::npos && fs::is_regular_file(file, error)) return file;
  throw std::invalid_argument(fmt::format("there is no preset `{}' in {}; there are {}", name,
                                          where->string(), fmt::join(preset_names(folder), ", ")));
}

[[noreturn]] void fail(const fs::path& file, const toml::node& at, const std::string& why) {
  throw std::invalid_argument(fmt::format("preset {}:{}: {}", file.string(), at.source().begin.line, why));
}

const Algorithm& algorithm_named(const std::string& name, const fs::path& file) {
  std::string names;
  for (const Algorithm& a : algorithms()) {
    if (a.name == name) return a;
    names.append(names.empty() ? "" : ", ").append(a.name);
  }
  throw std::invalid_argument(
      fmt::format("preset {}: `algorithm' is `{}'; it must be one of {}", file.string(), name, names));
}

std::string text_at(const toml::table& table, std::string_view key, const fs::path& file) {
  const toml::node* node = table.get(key);
  if (!node) throw std::invalid_argument(fmt::format("preset {}: `{}' is missing", file.string(), key));
  const auto text = node->value_exact<std::string>();
  if (!text) fail(file, *node, fmt::format("`{}' must be a text in quotes", key));
  return *text;
}

// With a unit or without; without one it counts in the parameter's own.
std::optional<double> value_of(const Parameter& p, std::string_view text) {
  if (const auto plain = parse_number(text)) return plain;
  if (p.unit == "s") {
    if (const auto duration = parse_duration(text)) return seconds(*duration);
  } else if (p.unit == "bit/s") {
    if (const auto rate = parse_rate(text)) return rate->bits_per_second;
  } else if (p.unit == "bytes") {
    if (const auto bytes = parse_size(text)) return static_cast<double>(*bytes);
  }
  return {};
}

// Throws std::invalid_argument.
void set_parameter(Preset& preset, const Algorithm& algorithm, std::string_view name, std::string_view text) {
  const auto p = std::find_if(algorithm.parameters.begin(), algorithm.parameters.end(),
                              [&](const Parameter& one) { return one.name == name; });
  if (p == algorithm.parameters.end()) {
    std::string names;
    for (const Parameter& one : algorithm.parameters)
      names.append(names.empty() ? "" : ", ").append(one.name);
    throw std::invalid_argument(
        fmt::format("{} has no parameter `{}'; it has {}", algorithm.name, name, names));
  }
  const auto value = value_of(*p, text);
  if (!value || !(*value >= p->least && *value <= p->most)) {
    throw std::invalid_argument(fmt::format("{} cannot be `{}'; it takes {} to {}{}{}", name, text, p->least,
                                            p->most, p->unit.empty() ? "" : " ", p->unit));
  }
  preset.parameters[std::string(name)] = *value;
}

// The tables under [network] are the dots in a field's name.
void read_network(const toml::table& table, const std::string& prefix, const fs::path& file, Preset& preset) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      read_network(*inner, name + ".", file, preset);
      continue;
    }
    const auto text = plain_text_of(node);
    if (!text) fail(file, node, fmt::format("`network.{}' must be a number, a text, true or false", name));
    try {
      Model probe;
      set_field(probe, name, *text);
    } catch (const std::invalid_argument& error) {
      fail(file, node, fmt::format("[network]: {}", error.what()));
    }
    preset.network.emplace_back(name, *text);
  }
}

void read_parameters(const toml::table& table, const Algorithm& algorithm, const fs::path& file,
                     Preset& preset) {
  for (const auto& [key, node] : table) {
    const auto text = plain_text_of(node);
    if (!text || node.is_boolean())
      fail(file, node, fmt::format("`parameters.{}' must be a number or a quantity in quotes", key.str()));
    try {
      set_parameter(preset, algorithm, key.str(), *text);
    } catch (const std::invalid_argument& error) {
      fail(file, node, fmt::format("[parameters]: {}", error.what()));
    }
  }
}

const toml::table* table_at(const toml::table& table, std::string_view key, const fs::path& file) {
  const toml::node* node = table.get(key);
  if (node && !node->is_table()) fail(file, *node, fmt::format("`{}' must be a table: [{}]", key, key));
  return node ? node->as_table() : nullptr;
}

Preset read(const fs::path& file) {
  const ParsedToml parsed = parse_toml(read_file("the preset", file.string(), kMostFileBytes));
  if (!parsed.table) {
    throw std::invalid_argument(
        fmt::format("preset {}:{}:{}: {}", file.string(), parsed.line, parsed.column, parsed.description));
  }
  const toml::table& table = *parsed.table;
  constexpr std::string_view kKnown[] = {"algorithm", "source", "parameters", "network"};
  for (const auto& [key, node] : table) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key.str()) == std::end(kKnown))
      fail(file, node, fmt::format("unknown key `{}'; known are {}", key.str(), fmt::join(kKnown, ", ")));
  }
  Preset preset{.file = file.string(),
                .algorithm = text_at(table, "algorithm", file),
                .source = text_at(table, "source", file)};
  const Algorithm& algorithm = algorithm_named(preset.algorithm, file);
  if (const toml::table* parameters = table_at(table, "parameters", file))
    read_parameters(*parameters, algorithm, file, preset);
  if (const toml::table* network = table_at(table, "network", file)) read_network(*network, "", file, preset);
  return preset;
}

}  // namespace

std::vector<std::string> preset_names(const std::string& folder) {
  std::vector<std::string> names;
  const auto where = folder_of(folder);
  if (!where) return names;
  std::error_code error;
  for (fs::directory_iterator entry(*where, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".toml") names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Preset load_preset(const std::string& name, const std::string& folder) {
  const size_t first = name.find('+');
  Preset preset = read(file_of(name.substr(0, first), folder));
  preset.name = name;
  for (size_t at = first; at != std::string::npos;) {
    const size_t next = name.find('+', at + 1);
    const std::string change = name.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    const size_t equals = change.find('=');
    try {
      if (equals == std::string::npos)
        throw std::invalid_argument(fmt::format("`+{}' is no `+PARAMETER=VALUE'", change));
      set_parameter(preset, algorithm_named(preset.algorithm, preset.file), change.substr(0, equals),
                    change.substr(equals + 1));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("preset `{}': {}", name, error.what()));
    }
    at = next;
  }
  return preset;
}

void apply(const Preset& preset, Setup& setup) {
  setup.algorithm = preset.algorithm;
  setup.parameters = preset.parameters;
  for (const auto& [field, value] : preset.network) set_field(setup.model, field, value);
}

}  // namespace megascale::sim
