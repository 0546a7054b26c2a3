// A run as a file or a command line describes it: topology, traffic, congestion control, what differs from
// the usual model, faults on a schedule.
//
//   topology = "fabric/megascale-128.toml"     # beside this file, or from where the program was started
//   traffic = "incast:64:1MB+victim"
//   cc = "hybrid"
//   seed = 1
//   limit = "10s"                              # of simulated time
//
//   [switches]
//   pfc.on = false
//
//   [[fault]]
//   at = "1ms"
//   lasts = "10ms"                             # without it: until the end
//   low = "host-01/0"                          # a NIC, by its number too, or a switch with `high` above it
//   rate = 0.25                                # share that is left, from 0.001; 0, without it: down
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric_tools/sim/model.h"
#include "fabric_tools/sim/preset.h"
#include "fabric_tools/sim/simulation.h"

namespace megascale::sim {

constexpr uint64_t kMostSeed = 1ull << 53;  // of whole numbers that every JSON reader keeps

struct Scenario {
  std::string topology, traffic, cc, placement;  // empty: not said
  uint64_t seed = 1;
  double load = 0;
  Duration limit = 10s;
  std::vector<std::pair<std::string, std::string>> settings;  // fields of the model, checked
  std::vector<Fault> faults;

  // Both throw std::invalid_argument as set_field() does.
  void set(const std::string& name, const std::string& value);       // a field of the model
  void set_head(const std::string& name, const std::string& value);  // what stands above the first table
  // The model that a preset asks for, then the settings. Faults name the topology's NICs.
  Setup setup(const Topology&, const Preset&) const;
};

// Both throw std::invalid_argument: what is wrong, where, and what is accepted.
Scenario read_scenario(const std::string& path);
Scenario parse_scenario(std::string_view text, const std::string& source);

Fault parse_fault(std::string_view);  // "at=1ms,lasts=10ms,low=0,rate=0.25"

}  // namespace megascale::sim
