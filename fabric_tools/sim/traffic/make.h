// From a description to traffic: `permutation:2MB`, or several at once: `incast:64:1MB+victim`.
#pragma once
#include <memory>
#include <string>

#include "fabric_tools/sim/traffic/workload.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

struct TrafficChoice {
  std::string spec;
  double load = 0;        // of random messages, where the description does not say it; 0: none
  std::string placement;  // of a training step: what `megascale-fabric place --json` wrote
  uint64_t seed = 1;
};

enum class Endless { kKeep, kLeaveOut };

// The topology must outlive it. Throws std::invalid_argument, quoting the description, for an unknown kind, a
// value out of its range or unknown, more messages than anybody can wait for, and for what the topology
// cannot carry. With kLeaveOut victims and backgrounds are missing, for the bound of the rest.
std::unique_ptr<Workload> make_traffic(const TrafficChoice&, const Topology&, Endless = Endless::kKeep);

std::string describe_traffic();  // for --help: each kind, its parameters, a sentence

}  // namespace megascale::sim
