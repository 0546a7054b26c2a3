// What a path is made of, and how long things take on it when nothing else is on the way.
#pragma once
#include <unordered_map>
#include <vector>

#include "fabric_tools/sim/routes.h"
#include "fabric_tools/sim/simulation.h"
#include "fabric_tools/sim/ticks.h"

namespace megascale::sim {

struct Hop {
  double per_byte;  // ticks
  Tick delay;       // of the link, and of the switch that it ends at
  bool operator==(const Hop&) const = default;
};

using Path = std::vector<Hop>;

// One packet: it is received whole at each hop before it goes on.
Tick crossing(const Path&, Bytes wire);
// From the begin of the first packet to the arrival of the last.
Tick message_alone(const Path&, const Hosts&, Bytes payload);
// A full packet there, its acknowledgement back.
Tick round_trip(const Path&, const Hosts&);

// From a NIC to another by the first of the shortest ways. Throws std::invalid_argument when there is none.
Path path_between(const Topology&, const Switches&, const Routes&, uint32_t source, uint32_t destination);

// What things take with empty queues, for any pair of NICs. The setup and its topology must outlive it.
class PathTimes {
 public:
  explicit PathTimes(const Setup& setup) : setup_(setup), routes_(*setup.topology) {}
  // One full packet there and its acknowledgement back; what a controller is told (without bias).
  Duration base_rtt(uint32_t source, uint32_t destination) const;
  // A message alone on its path: serialisation, delays, store and forward.
  Duration alone(uint32_t source, uint32_t destination, Bytes) const;

 private:
  const Setup& setup_;
  Routes routes_;
};

// Paths of all connections: few differ, so each is kept once.
class Paths {
 public:
  uint32_t intern(Path);
  const Path& operator[](uint32_t id) const { return paths_[id]; }

 private:
  std::vector<Path> paths_;
  std::unordered_multimap<uint64_t, uint32_t> known_;
};

}  // namespace megascale::sim
