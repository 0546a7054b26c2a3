// `megascale-fabric topology`: checks a topology, tells what it is made of, and keeps it in our form.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fabric_tools/command.h"
#include "fabric_tools/file.h"
#include "fabric_tools/topology/assume_options.h"
#include "fabric_tools/topology/read.h"
#include "fabric_tools/topology/write.h"
#include "transport/base/quantity.h"

namespace megascale {
namespace {

constexpr const char* kTopologyFooter =
    R"(Reads this project's TOML (docs/topology.md), Slurm's topology.conf or topograph's graph JSON, by the file's ending.
Exits 0 when the topology is sound, 1 when it is not, and says what is wrong: a NIC on another rail's ToR, ToR sets of
unequal size, hosts between which there is no way, more cables than ports. Exits 2 when called wrongly.

Examples:
  megascale-fabric topology configs/fabric/megascale-512.toml
  megascale-fabric topology topology.conf --assume-nics 8 --write fabric.toml    keep it, then set the true speeds)";

struct TopologyOptions {
  std::string file, write, json;
  AssumeOptions assume;
};

// Cables of a tier: those that go down from its switches.
struct TierSummary {
  uint32_t switches = 0;
  std::map<double, uint32_t> cables;  // by rate
  double up = 0, down = 0;            // bit/s of all its switches
};

std::vector<TierSummary> summary(const Topology& t) {
  std::vector<TierSummary> tiers(t.tiers);
  for (const Switch& s : t.switches) ++tiers[s.tier].switches;
  for (const Link& link : t.links) {
    TierSummary& high = tiers[t.switches[link.high.index].tier];
    ++high.cables[link.rate.bits_per_second];
    high.down += link.rate.bits_per_second;
    if (link.low.kind == End::Kind::kSwitch)
      tiers[t.switches[link.low.index].tier].up += link.rate.bits_per_second;
  }
  return tiers;
}

std::string cables_of(const TierSummary& tier) {
  std::string text;
  for (const auto& [rate, count] : tier.cables)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, text_of(Rate{rate}));
  return text;
}

void print(const Topology& t) {
  fmt::print("{}: {} hosts, {} NICs, {} rails{}, {} ToR sets, {} pods\n", t.name, t.hosts.size(),
             t.nics.size(), t.rails, t.rails_meet ? "" : " that do not meet", t.sets, t.pods);
  fmt::print("{:>5} {:>9} {:>12}  {}\n", "tier", "switches", "up / down", "cables down");
  uint32_t i = 0;
  for (const TierSummary& tier : summary(t)) {
    const std::string ratio = tier.up == 0 ? "-" : fmt::format("{:.2f}", tier.up / tier.down);
    fmt::print("{:>5} {:>9} {:>12}  {}\n", i++, tier.switches, ratio, cables_of(tier));
  }
  for (const std::string& note : t.notes) fmt::print("note: {}\n", note);
}

nlohmann::ordered_json to_json(const Topology& t) {
  nlohmann::ordered_json json = {
      {"name", t.name},   {"hosts", t.hosts.size()},          {"nics", t.nics.size()},
      {"rails", t.rails}, {"rails_meet", t.rails_meet},       {"sets", t.sets},
      {"pods", t.pods},   {"tiers", nlohmann::json::array()}, {"notes", t.notes}};
  for (const TierSummary& tier : summary(t)) {
    nlohmann::ordered_json cables = nlohmann::json::array();
    for (const auto& [rate, count] : tier.cables) cables.push_back({{"rate", rate}, {"count", count}});
    json["tiers"].push_back({{"switches", tier.switches},
                             {"bits_per_second_up", tier.up},
                             {"bits_per_second_down", tier.down},
                             {"cables_down", cables}});
  }
  return json;
}

int check_topology(const TopologyOptions& o) {
  const Assumed assumed = o.assume.assumed();
  if (std::ifstream file(o.file); !file)
    throw std::invalid_argument("the topology " + o.file + " cannot be opened");
  Topology topology;
  try {
    topology = read_topology(o.file, assumed);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "megascale-fabric topology: {}\n", error.what());
    return kNotWell;
  }
  if (o.json != "-") print(topology);
  if (!o.json.empty()) write_json(o.json, to_json(topology));
  if (!o.write.empty()) write_file("the topology", o.write, explicit_toml(topology));
  return kAllWell;
}

}  // namespace

void add_topology(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TopologyOptions>();
  CLI::App* command =
      app.add_subcommand("topology", "Check a topology, tell what it is made of, keep it in our form");
  command->add_option("file", options->file, "*.toml, *.conf (Slurm) or *.json (topograph)")->required();
  command->add_option("--write", options->write, "write it to this file, host by host and cable by cable");
  command->add_option("--json", options->json, "write the summary to this file too; - is standard output");
  add_assume_options(*command, options->assume);
  command->footer(kTopologyFooter);
  command->callback([options, &exit_code] { exit_code = check_topology(*options); });
}

}  // namespace megascale
