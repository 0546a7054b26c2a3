
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fabric_tools/command.h"
#include "fabric_tools/file.h"
#include "fabric_tools/not_nan.h"
#include "fabric_tools/placement/bytes.h"
#include "fabric_tools/placement/document.h"
#include "fabric_tools/placement/formats.h"
#include "fabric_tools/random.h"
#include "fabric_tools/topology/assume_options.h"
#include "fabric_tools/topology/host_list.h"
#include "fabric_tools/topology/read.h"
#include "transport/base/quantity.h"

namespace megascale {
namespace {

constexpr const char* kPlaceFooter =
    R"(Ranks count tensor-parallel ones fastest, then data-parallel ones, then pipeline stages. Hosts are ordered so that tensor
parallelism stays inside a host, the data-parallel ranks of a stage stay under one ToR set where they fit, else in one
pod, and only stages are far apart. A rank's number on its host is its rail; no traffic changes rails in the network.

The table says where bytes of a training step turn: what turns at a tier has crossed all tiers below it. Per step, with
h hidden size, s sequence, b micro-batch, m micro-batches, l layers of a stage, 2 bytes a value, P parameters of a GPU:
  tensor    2 l all-reduces of 2bsh bytes forward and as many backward, times m      (Megatron-LM, SC 2021, section 3)
  pipeline  2bsh / tp bytes forward and as many backward between neighbours, times m (the same, section 4.1)
  data      a reduce-scatter of 4P bytes and an all-gather of 2P                     (ZeRO, SC 2020, section 7)
by rings: of n ranks each sends (n-1)/n of the buffer, twice that for an all-reduce.

Exits 2 when called wrongly, or when the job does not fit the hosts.

Examples:
  megascale-fabric place --topology configs/fabric/megascale-512.toml --tp 8 --pp 8 --dp 8 --json place.json
  megascale-fabric place --topology topology.conf --hosts 'node[01-16]' --gpus-per-host 8 --tp 8 --pp 2 --dp 8
                         --format slurm > ranks && SLURM_HOSTFILE=ranks srun --distribution=arbitrary train)";

struct PlaceOptions {
  std::string topology, hosts, format, output, json;
  std::vector<std::string> before;
  uint32_t gpus_per_host = 0;
  Parallel parallel;
  TrainingModel model;
  AssumeOptions assume;
};

// One way to place the job, and what it costs.
struct Candidate {
  std::string name;
  Placement placement;
  BytesByTier bytes;
};

std::vector<uint32_t> by_name(const Topology& t, std::vector<uint32_t> hosts) {
  std::sort(hosts.begin(), hosts.end(),
            [&](uint32_t a, uint32_t b) { return name_before(t.hosts[a].name, t.hosts[b].name); });
  return hosts;
}

std::vector<uint32_t> shuffled(std::vector<uint32_t> hosts, uint64_t seed) {
  Random(seed).shuffle(hosts);
  return hosts;
}

std::vector<uint32_t> ordered(const Topology& t, const std::vector<uint32_t>& hosts,
                              const std::string& order) {
  if (order == "given") return hosts;
  if (order == "name") return by_name(t, hosts);
  if (order.starts_with("random:")) {
    const std::optional<double> seed = parse_number(order.substr(7));
    if (seed && *seed >= 0 && *seed < 1e15) return shuffled(by_name(t, hosts), static_cast<uint64_t>(*seed));
  }
  throw std::invalid_argument(fmt::format("--before `{}' must be name, given or random:SEED", order));
}

void print_row(FILE* out, const std::string& what, const std::vector<Candidate>& candidates, auto bytes_of) {
  fmt::print(out, "{:<24}", what);
  for (const Candidate& c : candidates) {
    double all = c.bytes.inside_host_sum();
    for (uint32_t tier = 0; tier < c.placement.topology->tiers; ++tier) all += c.bytes.sum_at_tier(tier);
    const double bytes = bytes_of(c);
    fmt::print(out, " {:>9} {:>6.2f} %", short_size_text(bytes), all > 0 ? 100 * bytes / all : 0.0);
  }
  fmt::print(out, "\n");
}

void print_table(FILE* out, const PlaceOptions& o, const Topology& t,
                 const std::vector<Candidate>& candidates) {
  const Parallel& p = o.parallel;
  fmt::print(out, "{} ranks (tensor {}, pipeline {}, data {}) on {} of {} hosts of {}; {:.4g} parameters\n\n",
             p.ranks(), p.tensor, p.pipeline, p.data, candidates[0].placement.hosts.size(), t.hosts.size(),
             t.name, parameters_of(o.model));
  fmt::print(out, "{:<24}", "bytes of a step turn at");
  for (const Candidate& c : candidates) fmt::print(out, " {:>18}", c.name);
  fmt::print(out, "\n");
  print_row(out, "inside a host", candidates, [](const Candidate& c) { return c.bytes.inside_host_sum(); });
  for (uint32_t tier = 0; tier < t.tiers; ++tier) {
    print_row(out, tier_name(tier, t.tiers), candidates,
              [&](const Candidate& c) { return c.bytes.sum_at_tier(tier); });
  }
  for (const std::string& note : t.notes) fmt::print(out, "note: {}\n", note);
}

nlohmann::ordered_json bytes_json(const Candidate& c) {
  const auto split = [](auto of) {
    nlohmann::ordered_json json;
    for (const Dimension d : {Dimension::kTensor, Dimension::kPipeline, Dimension::kData})
      json[std::string(name_of(d))] = of(static_cast<size_t>(d));
    return json;
  };
  const uint32_t tiers = c.placement.topology->tiers;
  nlohmann::ordered_json json = {{"order", c.name},
                                 {"inside_host", split([&](size_t d) { return c.bytes.inside_host[d]; })},
                                 {"tiers", nlohmann::json::array()}};
  for (uint32_t tier = 0; tier < tiers; ++tier) {
    nlohmann::ordered_json entry = {{"tier", tier}, {"name", tier_name(tier, tiers)}};
    entry.update(split([&](size_t d) { return c.bytes.at_tier[d][tier]; }));
    json["tiers"].push_back(entry);
  }
  return json;
}

nlohmann::ordered_json document_json(const PlaceOptions& o, const std::vector<Candidate>& candidates) {
  nlohmann::ordered_json json = to_json({o.parallel, o.model, candidates.back().placement});
  nlohmann::ordered_json before = nlohmann::json::array();
  for (size_t i = 0; i + 1 < candidates.size(); ++i) before.push_back(bytes_json(candidates[i]));
  json["bytes_before"] = before;
  json["bytes_after"] = bytes_json(candidates.back());
  json["notes"] = candidates.back().placement.topology->notes;
  return json;
}

std::string formatted(const PlaceOptions& o, const Placement& placement) {
  if (o.format == "hostfile") return hostfile(placement);
  if (o.format == "slurm") return slurm_hostfile(placement);
  return kubernetes_labels(placement, o.parallel);
}

void write_text(const std::string& path, const std::string& text) {
  if (path.empty()) {
    fmt::print("{}", text);
    return;
  }
  write_file("the placement", path, text);
}

std::vector<Candidate> candidates_of(const PlaceOptions& o, const Topology& t) {
  const std::vector<uint32_t> hosts =
      o.hosts.empty() ? all_hosts(t) : hosts_named(t, expand_host_list(o.hosts));
  const uint32_t gpus = o.gpus_per_host ? o.gpus_per_host : t.hosts[hosts[0]].nics;
  std::vector<std::string> before = o.before;
  if (before.empty()) before = {o.hosts.empty() ? "name" : "given", "random:1"};
  const Reach reach(t);
  std::vector<Candidate> candidates;
  const auto add = [&](std::string name, Placement placement) {
    BytesByTier bytes = bytes_by_tier(o.model, o.parallel, placement, reach);
    candidates.push_back({std::move(name), std::move(placement), std::move(bytes)});
  };
  for (const std::string& order : before) add(order, in_order(t, ordered(t, hosts, order), gpus, o.parallel));
  add("placed", place(t, hosts, gpus, o.parallel));
  return candidates;
}

int place(const PlaceOptions& o) {
  const Topology topology = read_topology(o.topology, o.assume.assumed());
  const std::vector<Candidate> candidates = candidates_of(o, topology);
  // Standard output belongs to what a program reads, where that goes there.
  const bool taken = (!o.format.empty() && o.output.empty()) || o.json == "-";
  print_table(taken ? stderr : stdout, o, topology, candidates);
  if (!o.format.empty()) write_text(o.output, formatted(o, candidates.back().placement));
  if (!o.json.empty()) write_json(o.json, document_json(o, candidates));
  return kAllWell;
}

void describe_job(CLI::App& command, PlaceOptions& o) {
  command.add_option("--topology", o.topology, "*.toml, *.conf (Slurm) or *.json (topograph)")->required();
  command.add_option("--tp", o.parallel.tensor, "tensor-parallel ranks")
      ->required()
      ->check(CLI::Range(1u, Parallel::kMostTensor));
  command.add_option("--pp", o.parallel.pipeline, "pipeline stages")
      ->required()
      ->check(CLI::Range(1u, Parallel::kMostPipeline));
  command.add_option("--dp", o.parallel.data, "data-parallel ranks")
      ->required()
      ->check(CLI::Range(1u, Parallel::kMostData));
  command.add_option("--hosts", o.hosts, "that may be used, as node[01-16,20] [all of the topology]");
  command.add_option("--gpus-per-host", o.gpus_per_host, "ranks on a host [its NICs]")
      ->check(CLI::Range(1u, kMostGpus));
  command.add_option("--before", o.before,
                     "order to compare with: name, given (that of --hosts) or random:SEED; again for more "
                     "[name or given, and random:1]");
  command
      .add_option("--format", o.format,
                  "write the order of hosts: hostfile (Open MPI), slurm (SLURM_HOSTFILE) or kubernetes "
                  "(labels of nodes)")
      ->check(CLI::IsMember({"hostfile", "slurm", "kubernetes"}));
  command.add_option("--output", o.output,
                     "file for --format [standard output, and the table goes to "
                     "standard error]");
  command.add_option("--json", o.json, "write placement and bytes to this file; - is standard output");
}

void describe_model(CLI::App& command, TrainingModel& m) {
  const char* group = "The model (175B parameters unless told otherwise)";
  const auto number = [&](const char* name, uint32_t& value, const char* what, uint32_t least = 1) {
    command.add_option(name, value, what)
        ->check(CLI::Range(least, 1'000'000'000u))
        ->capture_default_str()
        ->group(group);
  };
  number("--layers", m.layers, "transformer layers");
  number("--hidden", m.hidden, "hidden size");
  number("--sequence", m.sequence, "tokens of a sequence");
  number("--vocabulary", m.vocabulary, "tokens that are known", 0);
  command
      .add_option("--parameters", m.parameters, "of the whole model, as 175e9 [what follows from the shape]")
      ->check(CLI::Range(1.0, 1e18))
      ->check(not_nan())
      ->group(group);
  number("--micro-batch", m.micro_batch, "sequences in a micro-batch");
  number("--micro-batches", m.micro_batches, "of a replica in a step");
  number("--value-bytes", m.value_bytes, "of an activation or parameter that is sent");
  number("--gradient-bytes", m.gradient_bytes, "of a gradient that is reduced");
  command.add_option("--flops", m.flops, "that a GPU sustains; for the simulator's computing times")
      ->check(CLI::Range(1e6, 1e21))
      ->check(not_nan())
      ->capture_default_str()
      ->group(group);
}

}  // namespace

void add_place(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PlaceOptions>();
  CLI::App* command = app.add_subcommand(
      "place", "Order hosts for a job so that heavy traffic stays low in the fabric, and show the gain");
  describe_job(*command, *options);
  describe_model(*command, options->model);
  add_assume_options(*command, options->assume);
  command->footer(kPlaceFooter);
  command->callback([options, &exit_code] { exit_code = place(*options); });
}

}  // namespace megascale
