
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fabric_tools/command.h"
#include "fabric_tools/file.h"
#include "fabric_tools/list.h"
#include "fabric_tools/memory.h"
#include "fabric_tools/progress.h"
#include "fabric_tools/sim/model_fields.h"
#include "fabric_tools/sim/runs/html.h"
#include "fabric_tools/sim/runs/summary.h"
#include "fabric_tools/sim/runs/table.h"
#include "fabric_tools/sim/traffic/spec.h"
#include "transport/base/quantity.h"

namespace megascale {
namespace {

using sim::Comparison, sim::Matrix;

constexpr unsigned kSamples = 400;  // points of a curve in the report

std::atomic<bool> interrupted = false;

void listen_for_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C ends the program at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

struct Arguments {
  std::string scenario, topology, traffic, cc, presets, placement, limit, json, html, load;
  std::vector<std::string> settings, faults;
  uint64_t seed = 0;
  uint32_t seeds = 1;
  unsigned jobs = 0;
  bool stats = false, without_ideal = false, fields = false;
};

void add_common(CLI::App& command, Arguments& a) {
  command.add_option("--set", a.settings, "NAME=VALUE of the model, any number; --fields lists them")
      ->type_name("NAME=VALUE");
  command
      .add_option("--fault", a.faults,
                  "something that happens to a link, any number: low is a NIC or, with high, a switch")
      ->type_name("at=1ms,lasts=10ms,low=0,rate=0.25");
  command.add_option("--placement", a.placement, "of a training step: a file that `place --json' wrote");
  command.add_option("--presets", a.presets, "folder with presets of congestion control [configs/cc]");
  command.add_option("--limit", a.limit, "simulated time after which a run is given up, as 50ms [10s]");
  command.add_option("--json", a.json,
                     "write the results to this file as well; -: to standard output, instead of the table");
  command.add_option("--html", a.html, "write a report with plots to this file");
  command.add_flag("--stats", a.stats, "tell also what the simulation cost: events, CPU time, memory");
  command.add_flag("--no-ideal", a.without_ideal,
                   "do not work out the bound that no network can beat (over ideal)");
  command.add_flag("--fields", a.fields, "list what --set and scenario files can set, and stop");
}

// Scenario file first, command line after it.
sim::Scenario scenario_of(const Arguments& a) {
  sim::Scenario scenario = a.scenario.empty() ? sim::Scenario{} : sim::read_scenario(a.scenario);
  for (const std::string& setting : a.settings) {
    const size_t sign = setting.find('=');
    if (sign == std::string::npos)
      throw std::invalid_argument(fmt::format("--set takes NAME=VALUE, not `{}'", setting));
    scenario.set(setting.substr(0, sign), setting.substr(sign + 1));
  }
  for (const std::string& fault : a.faults) scenario.faults.push_back(sim::parse_fault(fault));
  const std::pair<const char*, const std::string*> heads[] = {{"topology", &a.topology},
                                                              {"traffic", &a.traffic},
                                                              {"cc", &a.cc},
                                                              {"placement", &a.placement},
                                                              {"limit", &a.limit}};
  for (const auto& [name, value] : heads)
    if (!value->empty()) scenario.set_head(name, *value);
  return scenario;
}

Matrix matrix_of(const Arguments& a) {
  Matrix matrix;
  matrix.scenario = scenario_of(a);
  matrix.topologies = list_of(matrix.scenario.topology, "--topology");
  matrix.traffic = list_of(matrix.scenario.traffic, "--traffic");
  matrix.cc = list_of(matrix.scenario.cc, "--cc");
  matrix.presets = a.presets;
  matrix.with_ideal = !a.without_ideal;
  matrix.samples = a.html.empty() ? 0 : kSamples;
  return matrix;
}

// One line with the share that is done and the time that is left, on a terminal.
std::function<void(const sim::Doing&)> reporter(Progress& line) {
  const auto start = std::chrono::steady_clock::now();
  return [&line, start](const sim::Doing& doing) {
    line.show([&] {
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::string text = fmt::format("{:.0f} % in {:.0f} s", doing.done * 100, took);
      if (doing.all > 1) text = fmt::format("{} of {} runs, ", doing.runs, doing.all) + text;
      if (doing.done > 0.01)
        text += fmt::format(", about {:.0f} s left", took * (1 - doing.done) / doing.done);
      return text;
    });
  };
}

void run_all(Comparison& comparison, unsigned jobs) {
  Progress line(true);
  sim::run(comparison, jobs, interrupted, reporter(line));
  const bool nothing = std::none_of(comparison.cells.begin(), comparison.cells.end(),
                                    [](const sim::Cell& cell) { return cell.done() > 0; });
  if (comparison.failure && nothing) std::rethrow_exception(comparison.failure);
}

// Files first: whoever reads the table may stop reading, which ends the program. And all that can be written
// is.
void tell(const Comparison& comparison, const Arguments& a, const std::function<void()>& print) {
  std::string failed;
  const auto write = [&failed](const std::string& path, const std::function<void()>& writer) {
    try {
      if (!path.empty()) writer();
    } catch (const std::runtime_error& error) {
      failed += (failed.empty() ? "" : "; ") + std::string(error.what());
    }
  };
  write(a.html, [&] { write_file("the report", a.html, sim::html(comparison)); });
  write(a.json, [&] { write_json(a.json, sim::document(comparison, a.stats)); });
  if (a.json != "-") print();
  if (comparison.failure) std::rethrow_exception(comparison.failure);
  if (!failed.empty()) throw std::runtime_error(failed);
}

int verdict(const Comparison& comparison, const char* command) {
  if (comparison.stopped) {
    fmt::print(stderr, "megascale-fabric {}: stopped; these are the results so far\n", command);
    return kNotMeasured;
  }
  return comparison.finished() ? kAllWell : kNotWell;
}

void print_cost(const Comparison& comparison) {
  double packets = 0, events = 0;
  for (const sim::Cell& cell : comparison.cells)
    for (const auto& outcome : cell.outcomes)
      if (outcome) {
        packets += static_cast<double>(outcome->result.data_packets);
        events += static_cast<double>(outcome->result.events);
      }
  const double cpu = cpu_seconds();
  fmt::print(
      "\n  cost              events {:.0f}  packets {:.0f}  CPU s {:.3f}  packets per CPU s {:.0f}  "
      "events per CPU s {:.0f}  peak memory MB {:.1f}\n",
      events, packets, cpu, packets / cpu, events / cpu, static_cast<double>(peak_memory()) / 1e6);
}

int run_sim(const Arguments& a) {
  Matrix matrix = matrix_of(a);
  if (matrix.topologies.size() + matrix.traffic.size() + matrix.cc.size() > 3)
    throw std::invalid_argument(
        "one scenario is one topology, one traffic, one --cc; cc-compare takes lists");
  matrix.seeds = {a.seed > 0 ? a.seed : matrix.scenario.seed};
  matrix.loads = {matrix.scenario.load};
  Comparison comparison = sim::prepare(matrix, interrupted);
  comparison.keep_partial = true;
  run_all(comparison, 1);
  tell(comparison, a, [&] {
    fmt::print("{}", sim::summary(comparison));
    if (a.stats) print_cost(comparison);
  });
  return verdict(comparison, "sim");
}

std::vector<double> loads_of(const std::string& text) {
  std::vector<double> loads;
  for (const std::string& entry : list_of(text, "--load")) {
    const auto load = parse_number(entry);
    if (!load || !(*load >= 0 && *load <= 1))
      throw std::invalid_argument(
          fmt::format("--load takes shares of the NICs' rate, 0 to 1, not `{}'", entry));
    loads.push_back(*load);
  }
  return loads;
}

int run_compare(const Arguments& a) {
  Matrix matrix = matrix_of(a);
  if (a.load.empty()) matrix.loads = {matrix.scenario.load};
  else matrix.loads = loads_of(a.load);
  matrix.seeds.clear();
  for (uint64_t seed = 1; seed <= a.seeds; ++seed) matrix.seeds.push_back(seed);
  Comparison comparison = sim::prepare(matrix, interrupted);
  const unsigned most = sim::most_jobs(comparison);
  run_all(comparison, a.jobs == 0 ? most : std::min(a.jobs, std::max(most, 1u)));
  tell(comparison, a, [&] {
    fmt::print("{}", sim::table(comparison));
    if (a.stats) print_cost(comparison);
  });
  return verdict(comparison, "cc-compare");
}

// The command itself, or only what it can be told by --set.
int asked(const Arguments& a, int (*command)(const Arguments&)) {
  if (a.fields) {
    fmt::print("{}", sim::describe_fields());
    return kAllWell;
  }
  if (a.html == "-") throw std::invalid_argument("--html needs the name of a file; only --json takes `-'");
  listen_for_interrupt();
  return command(a);
}

constexpr const char* kSimExamples = R"(
Examples:
  megascale-fabric sim --topology configs/fabric/fat-tree-128.toml --traffic permutation:2MB --cc fixed --stats
  megascale-fabric sim --topology configs/fabric/megascale-128.toml --traffic incast:64:1MB+victim --cc hybrid \
    --set switches.pfc.on=off --html incast.html
  megascale-fabric sim --scenario flap.toml --seed 7

Exits 0 when the traffic was over; 1 when it was not within --limit, as after a deadlock; 2 when called wrongly; 3 when
it could not be measured, or was stopped by Ctrl-C. docs/simulator.md tells what the figures mean.)";

constexpr const char* kCompareExamples = R"(
Examples:
  megascale-fabric cc-compare --topology configs/fabric/megascale-128.toml --traffic all_to_all:100KB \
    --cc dcqcn:connectx,swift,hpcc,nscc,hybrid --seeds 3 --json out.json --html out.html
  megascale-fabric cc-compare --topology A.toml,B.toml --traffic permutation:2MB,incast:64:1MB --cc swift,hybrid --load 0,0.3

Columns: compl us completion, /ideal that over a bound that no network can beat, slow the mean slowdown of messages (with
p99, max), queue KB the mean queue (with p99, max), retx packets sent again, util % of the busiest port. Figures are medians
over the seeds; spread is the least and the most completion. docs/simulator.md tells more.

Exits 0 when all runs reached their end, 1 when some did not, 2 when called wrongly, 3 when something could not be
measured, or Ctrl-C stopped it.)";

}  // namespace

void add_sim(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("sim", "Simulate one traffic under one congestion control, packet by packet");
  command->add_option("--topology", arguments->topology,
                      "file as of configs/fabric/ (*.toml), Slurm's (*.conf) or topograph's (*.json)");
  command->add_option("--traffic", arguments->traffic, "what is sent; the kinds are below");
  command->add_option("--cc", arguments->cc,
                      "preset of congestion control, as swift, dcqcn:connectx or hybrid+marks=0, or a path");
  command->add_option("--seed", arguments->seed, "of everything that is random [1]")
      ->check(CLI::Range(uint64_t{1}, sim::kMostSeed));
  command->add_option("--scenario", arguments->scenario,
                      "TOML file with any of these (docs/simulator.md); the command line goes before it");
  add_common(*command, *arguments);
  command->footer("Traffic:\n" + sim::describe_traffic() + kSimExamples);
  command->callback([arguments, &exit_code] { exit_code = asked(*arguments, run_sim); });
}

void add_cc_compare(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("cc-compare", "Compare congestion controls: a table of simulations");
  command->add_option("--topology", arguments->topology, "files, separated by commas");
  command->add_option("--traffic", arguments->traffic, "descriptions, separated by commas (see sim --help)");
  command->add_option("--cc", arguments->cc, "presets, separated by commas (see sim --help)");
  command->add_option("--seeds", arguments->seeds, "run each with so many seeds: 1, 2, ... [1]")
      ->check(CLI::Range(1, 10000));
  command->add_option(
      "--load", arguments->load,
      "shares of the NICs' rate, separated by commas: of `random', or of a background of the rest [0]");
  command->add_option("--jobs", arguments->jobs, "runs at once [as cores and memory allow]")
      ->check(CLI::Range(1, 1024));
  command->add_option("--scenario", arguments->scenario,
                      "TOML file of settings and faults that hold for all");
  add_common(*command, *arguments);
  command->footer(kCompareExamples);
  command->callback([arguments, &exit_code] { exit_code = asked(*arguments, run_compare); });
}

}  // namespace megascale
