// `megascale-fabric env`: the documentation of every variable, printed from its declaration.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "fabric_tools/command.h"
#include "fabric_tools/file.h"
#include "transport/base/settings.h"

namespace megascale {
namespace {

void print_table() {
  size_t name = 0, type = 0, fallback = 0;
  for (const SettingDoc& doc : setting_docs()) {
    name = std::max(name, doc.name.size());
    type = std::max(type, doc.type.size());
    fallback = std::max(fallback, doc.fallback.size());
  }
  fmt::print("{:{}}  {:{}}  {:{}}  meaning\n", "variable", name, "type", type, "default", fallback);
  for (const SettingDoc& doc : setting_docs()) {
    std::string meaning = doc.sentence;
    if (!doc.accepted.empty()) meaning += " [" + doc.accepted + "]";
    if (!doc.also.empty()) meaning += " (also " + doc.also + ")";
    fmt::print("{:{}}  {:{}}  {:{}}  {}\n", doc.name, name, doc.type, type, doc.fallback, fallback, meaning);
  }
  fmt::print("\nMEGASCALE_CONFIG names a TOML file that sets any of these; the environment wins.\n");
}

nlohmann::ordered_json as_json() {
  auto list = nlohmann::ordered_json::array();
  for (const SettingDoc& doc : setting_docs()) {
    list.push_back({{"name", doc.name},
                    {"also", doc.also},
                    {"type", doc.type},
                    {"default", doc.fallback},
                    {"accepted", doc.accepted},
                    {"key", doc.key},
                    {"meaning", doc.sentence}});
  }
  return list;
}

}  // namespace

void add_env(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("env", "Lists every environment variable: type, default, range, meaning.");
  command->footer("Example:\n  megascale-fabric env --json variables.json");
  auto json = std::make_shared<std::string>();
  command->add_option("--json", *json,
                      "write the list to this file as well (- for standard output, instead)");
  command->callback([json, &exit_code] {
    if (*json != "-") print_table();
    if (!json->empty()) write_json(*json, as_json());
    exit_code = kAllWell;
  });
}

}  // namespace megascale
