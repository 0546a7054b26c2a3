#include "fabric_tools/sim/runs/scenario.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "fabric_tools/file.h"
#include "fabric_tools/list.h"
#include "fabric_tools/sim/model_fields.h"
#include "fabric_tools/sim/traffic/nic_names.h"
#include "fabric_tools/sim/traffic/spec.h"
#include "fabric_tools/toml_fields.h"
#include "transport/base/quantity.h"

namespace megascale::sim {
namespace {

constexpr size_t kMostScenarioBytes = 64 << 20, kMostFaults = 10'000;

std::string text_of_node(const toml::node& node, const std::string& name) {
  if (const auto text = plain_text_of(node)) return *text;
  throw std::invalid_argument(fmt::format("`{}' is a text, a number, true or false", name));
}

double number_of(const std::string& name, const std::string& text, double least, double most) {
  const auto value = parse_number(text);
  if (!value || !(*value >= least && *value <= most))
    throw std::invalid_argument(
        fmt::format("`{}' cannot be `{}': it takes {} to {}", name, text, least, most));
  return *value;
}

uint64_t whole_number_of(const std::string& name, const std::string& text, uint64_t least, uint64_t most) {
  const double value = number_of(name, text, static_cast<double>(least), static_cast<double>(most));
  if (value != std::floor(value))
    throw std::invalid_argument(fmt::format("`{}' cannot be `{}': it takes a whole number", name, text));
  return static_cast<uint64_t>(value);
}

Duration duration_of(const std::string& name, const std::string& text) {
  const auto value = parse_duration(text);
  if (!value || *value > 24h)
    throw std::invalid_argument(
        fmt::format("`{}' cannot be `{}': it takes a time up to 24h, as 10ms", name, text));
  return *value;
}

void set_fault(Fault& fault, const std::string& name, const std::string& text) {
  if (name == "at") fault.at = duration_of(name, text);
  else if (name == "lasts") fault.lasts = duration_of(name, text);
  else if (name == "low") fault.low = text;
  else if (name == "high") fault.high = text;
  else if (name == "rate") fault.rate = number_of(name, text, 0, 1);
  else throw std::invalid_argument(fmt::format("a fault has no `{}', but at, lasts, low, high, rate", name));
}

Fault checked(Fault fault) {
  if (fault.low.empty())
    throw std::invalid_argument(
        "a fault needs `low', the lower end of its link: a NIC, by its number or as HOST/RAIL, or a switch");
  return fault;
}

void set_fields(Scenario& scenario, const std::string& prefix, const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + "." + std::string(key.str());
    if (const auto* inner = node.as_table()) set_fields(scenario, name, *inner);
    else scenario.set(name, text_of_node(node, name));
  }
}

void set_faults(Scenario& scenario, const toml::node& node) {
  const auto* list = node.as_array();
  if (list == nullptr || !list->is_homogeneous(toml::node_type::table))
    throw std::invalid_argument("faults are tables, each with the heading [[fault]]");
  for (const auto& entry : *list) {
    Fault fault;
    for (const auto& [key, value] : *entry.as_table())
      set_fault(fault, std::string(key.str()), text_of_node(value, std::string(key.str())));
    scenario.faults.push_back(checked(fault));
    if (scenario.faults.size() > kMostFaults)
      throw std::invalid_argument(fmt::format("there are more than {} faults", kMostFaults));
  }
}

}  // namespace

void Scenario::set(const std::string& name, const std::string& value) {
  Model model;
  set_field(model, name, value);  // throws
  settings.emplace_back(name, value);
}

void Scenario::set_head(const std::string& name, const std::string& text) {
  if (name == "topology") topology = text;
  else if (name == "traffic") traffic = text;
  else if (name == "cc") cc = text;
  else if (name == "placement") placement = text;
  else if (name == "seed") seed = whole_number_of(name, text, 1, kMostSeed);
  else if (name == "load") load = number_of(name, text, 0, 1);
  else if (name == "limit") limit = duration_of(name, text);
  else
    throw std::invalid_argument(
        fmt::format("there is no `{}'; a scenario has topology, traffic, cc, placement, seed, load, limit, "
                    "[switches], [hosts], "
                    "[[fault]]",
                    name));
}

Setup Scenario::setup(const Topology& of, const Preset& preset) const {
  Setup setup;
  setup.topology = &of;
  apply(preset, setup);
  for (const auto& [name, value] : settings) set_field(setup.model, name, value);
  NicNames nics(of);
  for (Fault fault : faults) {
    const auto nic = fault.high.empty() ? nics.find(fault.low) : std::nullopt;
    if (nic) fault.low = nic_name(of, *nic);
    setup.model.faults.push_back(fault);
  }
  setup.seed = seed;
  setup.limit = limit;
  return setup;
}

Scenario parse_scenario(std::string_view text, const std::string& source) {
  const ParsedToml parsed = parse_toml(text);
  if (!parsed.table)
    throw std::invalid_argument(
        fmt::format("scenario {}, line {}: {}", source, parsed.line, parsed.description));
  Scenario scenario;
  for (const auto& [key, node] : *parsed.table) {
    const std::string name(key.str());
    try {
      if (name == "fault") set_faults(scenario, node);
      else if (const auto* table = node.as_table()) set_fields(scenario, name, *table);
      else scenario.set_head(name, text_of_node(node, name));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(
          fmt::format("scenario {}, line {}: {}", source, node.source().begin.line, error.what()));
    }
  }
  return scenario;
}

Scenario read_scenario(const std::string& path) {
  const std::string text = read_file("the scenario", path, kMostScenarioBytes);
  Scenario scenario = parse_scenario(text, path);
  // What it names may stand beside it.
  for (std::string* named : {&scenario.topology, &scenario.placement}) {
    const auto beside = std::filesystem::path(path).parent_path() / *named;
    if (!named->empty() && std::filesystem::path(*named).is_relative() && std::filesystem::exists(beside))
      *named = beside.string();
  }
  return scenario;
}

Fault parse_fault(std::string_view text) {
  Fault fault;
  for (const std::string& part : split(text, ',')) {
    const size_t sign = part.find('=');
    if (sign == std::string::npos)
      throw std::invalid_argument(fmt::format(
          "fault `{}': `{}' is not NAME=VALUE, as in at=1ms,lasts=10ms,low=0,rate=0.25", text, part));
    try {
      set_fault(fault, part.substr(0, sign), part.substr(sign + 1));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("fault `{}': {}", text, error.what()));
    }
  }
  return checked(fault);
}

}  // namespace megascale::sim
