// The TOML form: one of the rules of generate.h by `kind`, or every host, switch and link by name.
#include <fmt/format.h>

#include <stdexcept>

#include "fabric_tools/topology/bounds.h"
#include "fabric_tools/topology/check.h"
#include "fabric_tools/topology/fields.h"
#include "fabric_tools/topology/generate.h"
#include "fabric_tools/topology/read.h"
#include "fabric_tools/topology/read_explicit.h"

namespace megascale {
namespace {

constexpr uint32_t kMostHosts = 2'000'000'000;  // that they also fit into memory is checked later
constexpr uint32_t kMostPorts = 65'536;

TierShape read_tier(const toml::table& table, const std::string& source, uint32_t i, size_t tiers) {
  const TopologyFields f(table, source, "[[tier]]",
                         {"name", "ports", "split", "rate", "delay", "groups", "up", "switches"});
  if (i == 0 && (f.has("groups") || f.has("switches")))
    f.fail("the first [[tier]] is the ToRs: no `groups` or `switches`, hosts.per_set and hosts.nics say it");
  const bool top = i + 1 == tiers;
  TierShape tier;
  tier.name = f.text("name", tier_name(i, tiers));
  tier.ports = f.count("ports", 1, kMostPorts);
  tier.split = f.count("split", 1, 64, 1);
  tier.rate = f.rate("rate");
  tier.delay = f.delay("delay");
  tier.groups = f.count("groups", 1, kMostPorts, 0);
  tier.up = top ? f.count("up", 0, 0, 0) : f.count("up", 1, kMostPorts);
  tier.switches = f.count("switches", 1, kMostPorts, 0);
  return tier;
}

Topology read_clos(const toml::table& document, const std::string& source, bool rails_meet) {
  const TopologyFields f(document, source, "the document", {"kind", "name", "hosts", "tier"});
  const TopologyFields hosts(f.table("hosts"), source, "[hosts]", {"count", "nics", "per_set", "prefix"});
  ClosShape shape{.name = f.text("name", rails_meet ? "clos" : "rail-only"),
                  .host_prefix = hosts.text("prefix", "host"),
                  .hosts = hosts.count("count", 1, kMostHosts),
                  .nics = hosts.count("nics", 1, kMostRails, 1),
                  .rails_meet = rails_meet};
  const toml::array* tiers = f.tables("tier");
  if (!tiers || tiers->empty() || tiers->size() > kMostTiers)
    f.fail(fmt::format("1 to {} [[tier]] are needed, the ToRs first", kMostTiers));
  for (const toml::node& tier : *tiers)
    shape.tiers.push_back(
        read_tier(*tier.as_table(), source, static_cast<uint32_t>(shape.tiers.size()), tiers->size()));
  shape.tiers[0].groups = hosts.count("per_set", 1, kMostHosts, shape.hosts);
  return build_clos(shape);
}

Topology read_fat_tree(const toml::table& document, const std::string& source) {
  const TopologyFields f(document, source, "a fat_tree", {"kind", "name", "k", "rate", "delay", "prefix"});
  ClosShape shape = fat_tree(f.count("k", 2, 1024), f.rate("rate"), f.delay("delay"));
  shape.name = f.text("name", shape.name);
  shape.host_prefix = f.text("prefix", "host");
  return build_clos(shape);
}

Topology read_leaf_spine(const toml::table& document, const std::string& source) {
  const TopologyFields f(document, source, "a leaf_spine",
                         {"kind", "name", "prefix", "hosts", "per_leaf", "spines", "cables", "host_rate",
                          "rate", "host_delay", "delay"});
  const uint32_t spines = f.count("spines", 1, kMostPorts), cables = f.count("cables", 1, 256, 1);
  const ClosShape shape{.name = f.text("name", "leaf-spine"),
                        .host_prefix = f.text("prefix", "host"),
                        .hosts = f.count("hosts", 1, kMostHosts),
                        .tiers = {{.name = "leaf",
                                   .ports = UINT32_MAX,
                                   .rate = f.rate("host_rate"),
                                   .delay = f.delay("host_delay"),
                                   .groups = f.count("per_leaf", 1, kMostPorts),
                                   .up = spines * cables},
                                  {.name = "spine",
                                   .ports = UINT32_MAX,
                                   .rate = f.rate("rate"),
                                   .delay = f.delay("delay"),
                                   .switches = spines}}};
  return build_clos(shape);
}

Topology read_single_switch(const toml::table& document, const std::string& source) {
  const TopologyFields f(document, source, "a single_switch",
                         {"kind", "name", "prefix", "hosts", "rate", "delay"});
  const uint32_t hosts = f.count("hosts", 1, kMostPorts);
  return build_clos({.name = f.text("name", "single-switch"),
                     .host_prefix = f.text("prefix", "host"),
                     .hosts = hosts,
                     .tiers = {{.name = "switch",
                                .ports = hosts,
                                .rate = f.rate("rate"),
                                .delay = f.delay("delay"),
                                .groups = hosts}}});
}

Topology read_dumbbell(const toml::table& document, const std::string& source) {
  const TopologyFields f(
      document, source, "a dumbbell",
      {"kind", "name", "prefix", "left", "right", "host_rate", "rate", "host_delay", "delay"});
  return build_dumbbell({.name = f.text("name", "dumbbell"),
                         .host_prefix = f.text("prefix", "host"),
                         .left = f.count("left", 1, kMostPorts),
                         .right = f.count("right", 1, kMostPorts),
                         .host_rate = f.rate("host_rate"),
                         .rate = f.rate("rate"),
                         .host_delay = f.delay("host_delay"),
                         .delay = f.delay("delay")});
}

Topology read_by_kind(const toml::table& document, const std::string& source) {
  const toml::node* node = document.get("kind");
  const std::string kind = node ? node->value_or(std::string()) : "";
  if (kind == "clos") return read_clos(document, source, true);
  if (kind == "rail_only") return read_clos(document, source, false);
  if (kind == "fat_tree") return read_fat_tree(document, source);
  if (kind == "leaf_spine") return read_leaf_spine(document, source);
  if (kind == "single_switch") return read_single_switch(document, source);
  if (kind == "dumbbell") return read_dumbbell(document, source);
  if (kind == "explicit") return read_explicit(document, source);
  throw std::invalid_argument(fmt::format(
      "{}:{}: `kind` must be clos, rail_only, fat_tree, leaf_spine, single_switch, dumbbell or explicit",
      source, node ? node->source().begin.line : 1));
}

}  // namespace

Topology read_topology_toml(std::string_view text, const std::string& source) {
  const ParsedToml parsed = parse_toml(text);
  if (!parsed.table)
    throw std::invalid_argument(
        fmt::format("{}:{}:{}: {}", source, parsed.line, parsed.column, parsed.description));
  Topology topology;
  try {
    topology = read_by_kind(*parsed.table, source);
    const bool any = (*parsed.table)["unequal_sets"].value_or(false);
    check(topology, any ? Sets::kAny : Sets::kEqual);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    throw std::invalid_argument(why.starts_with(source + ":") ? why : source + ": " + why);
  }
  return topology;
}

}  // namespace megascale
