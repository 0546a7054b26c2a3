// One run of the commands: a scenario, simulated, beside the bound that nothing can beat.
#pragma once
#include <atomic>
#include <optional>

#include "fabric_tools/sim/runs/scenario.h"
#include "fabric_tools/sim/simulation.h"
#include "fabric_tools/sim/traffic/make.h"

namespace megascale::sim {

struct Outcome {
  Result result;
  Duration completion{0};         // of what is not endless
  std::optional<Duration> ideal;  // ideal.h; nothing: not asked for
  std::optional<Rate> victim;     // goodput
  double cpu_seconds = 0;         // of the simulation, without its bound
};

struct Plan {
  Setup setup;  // with its topology; `sample` follows from `samples`
  TrafficChoice traffic;
  bool with_ideal = true;
  unsigned samples = 0;  // of queues and rates over time, about
};

// Throws what make_traffic() and simulate() throw.
Outcome run(const Plan&, RunState* = nullptr);

// What it will need. Throws std::runtime_error with both numbers when that is not there, and
// std::invalid_argument when what the traffic posts first has no route or too many packets.
// Throws std::runtime_error, too, once `stop` is set.
Bytes check_memory_and_routes(const Plan&, const std::atomic<bool>& stop);

}  // namespace megascale::sim
