// A matrix of runs: topologies x traffic x load x congestion control x seeds, as many at once as there are
// cores. The result does not depend on how many.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fabric_tools/sim/runs/columns.h"
#include "fabric_tools/sim/runs/run.h"

namespace megascale::sim {

struct Matrix {
  std::vector<std::string> topologies, traffic, cc;  // files, descriptions, presets
  std::vector<double> loads{0};  // 0: none; else of `random', and of a background of other traffic
  std::vector<uint64_t> seeds{1};
  std::string presets;   // folder; empty: the usual one
  Scenario scenario;     // what holds for all: settings, faults, limit, placement
  unsigned samples = 0;  // of queues and rates over time, for the first seed
  bool with_ideal = true;
};

struct Cell {  // all seeds of one combination
  std::string topology, traffic, cc;
  double load = 0;
  Bytes memory = 0;
  std::vector<Plan> plans;                       // one for each seed
  std::vector<std::optional<Outcome>> outcomes;  // nothing: stopped before it was over

  std::string title() const;  // without the congestion control
  Spread of(const Column&) const;
  size_t done() const;
};

struct Comparison {
  std::vector<Topology> topologies;
  std::vector<Cell> cells;  // in the order of the matrix
  std::vector<uint64_t> seeds;
  bool stopped = false;
  std::exception_ptr failure;  // of the first run that threw: no more were begun
  bool keep_partial = false;   // what a run has when it is stopped counts, too
  uint32_t tiers = 0;          // of the topology that has most

  bool finished() const;  // every run reached its end, within the limit of simulated time
};

struct Doing {
  size_t runs, all;
  double done;  // share of the work, runs in progress included
};

// Reads and checks everything there is to check before a run. Throws std::invalid_argument and
// std::runtime_error with what is wrong, or when `stop` is set.
Comparison prepare(const Matrix&, const std::atomic<bool>& stop);

// Runs what was prepared, `jobs` at once, until all is done or `stop` is set. `report` is called about five
// times a second by the calling thread.
void run(Comparison&, unsigned jobs, const std::atomic<bool>& stop,
         const std::function<void(const Doing&)>& report);

// As many runs at once as the cores and the memory allow, and at least one.
unsigned most_jobs(const Comparison&);

// `stats`: also what differs from run to run, CPU time.
nlohmann::ordered_json document(const Comparison&, bool stats);

}  // namespace megascale::sim
