#include "fabric_tools/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fabric_tools/file.h"
#include "fabric_tools/lab/job.h"
#include "fabric_tools/lab/namespaces.h"
#include "fabric_tools/lab/report.h"
#include "fabric_tools/not_nan.h"

namespace megascale {
namespace {

struct RunArguments {
  lab::JobOptions job;
  double timeout = 0, grace = 10;
};

void add_run(CLI::App& lab, int& exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  lab::JobOptions& job = arguments->job;
  CLI::App* run = lab.add_subcommand(
      "run", "Run a command, once a rank, on pretended hosts joined by rails, with faults");
  run->add_option("--hosts", job.shape.hosts, "pretended hosts")->capture_default_str();
  run->add_option("--rails", job.shape.rails, "rails that join them")->capture_default_str();
  run->add_option("--ranks", job.shape.ranks, "processes, spread evenly over the hosts")
      ->capture_default_str();
  run->add_option("--faults", job.faults, "schedule of faults (TOML), or none")->default_str("none");
  run->add_option("--after-file", job.after_file, "count the times of faults from when this file appears");
  run->add_option("--timeout", arguments->timeout, "seconds the command may take; 0: as long as it likes")
      ->check(CLI::Range(0.0, 1e6))
      ->check(not_nan())
      ->capture_default_str();
  run->add_option("--grace", arguments->grace, "seconds the other ranks have to end once one has failed")
      ->check(CLI::Range(0.0, 1e6))
      ->check(not_nan())
      ->capture_default_str();
  run->add_option("--events", job.events, "append what happens to this file, JSON lines");
  run->add_option("--logs", job.logs, "write each rank's output to rank-N.log in this folder");
  run->add_flag("--keep", job.keep, "leave the namespaces for a look (see lab clean)");
  run->add_flag("--loopback", job.loopback, "use loopback addresses as rails, as without root");
  run->add_option("command", job.command, "the command and its arguments, after --")->required();
  run->footer(
      "Ranks find MEGASCALE_RANK, MEGASCALE_RANKS, MEGASCALE_LOCAL_RANK, MEGASCALE_RENDEZVOUS and "
      "MEGASCALE_RAILS in\n"
      "their environment. Example:\n"
      "  megascale-fabric lab run --hosts 2 --rails 2 --ranks 4 --faults faults.toml -- megascale-fabric "
      "bench all_reduce\n"
      "The schedule of faults is described in docs/faults.md.");
  run->callback([arguments, &exit_code] {
    lab::JobOptions& options = arguments->job;
    if (arguments->timeout > 0) options.timeout = from_seconds(arguments->timeout);
    options.grace = from_seconds(arguments->grace);
    exit_code = lab::run_job(options);
  });
}

void add_report(CLI::App& lab, int& exit_code) {
  struct Arguments {
    std::string folder, json;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* report = lab.add_subcommand(
      "report", "Tell from event files what failed, what was replayed and how long traffic stood still");
  report->add_option("folder", arguments->folder, "folder with the event files, *.jsonl")->required();
  report->add_option("--json", arguments->json,
                     "write it for programs too; - is standard output, without the tables");
  report->callback([arguments, &exit_code] {
    const lab::Report found = lab::read_report(arguments->folder);
    if (arguments->json != "-") fmt::print("{}", lab::tables(found));
    if (!arguments->json.empty()) write_json(arguments->json, lab::as_json(found));
    exit_code = kAllWell;
  });
}

void add_clean(CLI::App& lab, int& exit_code) {
  CLI::App* clean = lab.add_subcommand("clean", "Remove namespaces that --keep left behind");
  clean->callback([&exit_code] {
    std::vector<std::string> names = lab::abandoned_namespaces();
    std::vector<std::string> complaints = lab::remove_namespaces(names);
    for (const std::string& complaint : complaints)
      fmt::print(stderr, "megascale-fabric lab: {}\n", complaint);
    fmt::print("removed {} network namespaces\n", names.size() - complaints.size());
    exit_code = complaints.empty() ? kAllWell : kNotWell;
  });
}

}  // namespace

void add_lab(CLI::App& app, int& exit_code) {
  CLI::App* lab = app.add_subcommand("lab", "A pretended fabric of network namespaces, and faults in it");
  lab->require_subcommand(1);
  add_run(*lab, exit_code);
  add_report(*lab, exit_code);
  add_clean(*lab, exit_code);
}

}  // namespace megascale
