// A network as pipes: every flow gets its max-min fair share of its way until it is done. No packets, no
// queues: what collisions alone cost.
#pragma once
#include <vector>

#include "fabric_tools/topology/topology.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {

using Way = std::vector<uint32_t>;  // ports, as Result::ports counts them

// One of the shortest ways for each, at random.
std::vector<Way> draw_ways(const Topology&, const std::vector<Send>&, uint64_t seed);

// Those that the simulator's hash gives them, as its counters tell when each sends one packet alone.
std::vector<Way> hashed_ways(const Setup&, const std::vector<Send>&);

struct FluidFlow {
  Way way;
  double bytes;
};

// Seconds that each takes, without delays, by progressive filling (Bertsekas, Gallager, Data
// Networks, 6.5.2).
std::vector<double> fluid_times(const Topology&, const std::vector<FluidFlow>&);

}  // namespace megascale::sim
