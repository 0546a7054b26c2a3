// Topologies by rule: a Clos of any number of tiers, of which fat trees, leaf-spine and rail-only fabrics are
// cases, and a dumbbell.
#pragma once
#include <string>
#include <vector>

#include "fabric_tools/topology/topology.h"

namespace megascale {

struct TierShape {
  std::string name;       // switches are NAME-..., as tor-0-3, agg-1-7, core-12
  uint32_t ports = 64;    // of a switch
  uint32_t split = 1;     // cables that a port going down is split into (400G to 2 x 200G: 2)
  Rate rate;              // of a cable going down
  Duration delay{0};      // of a cable going down
  uint32_t groups = 0;    // of the tier below that meet here; 0: all. ToRs: servers under a set
  uint32_t up = 0;        // cables going up; 0 in the top tier
  uint32_t switches = 0;  // that the cables of a switch below are spread over; 0: one cable to each
};

// The tiers from the ToRs upward. A server has `nics` NICs and a set has a ToR for each of them, a rail. All
// ToRs of a pod (the groups that meet in the second tier) have cables to all of its switches; above, and with
// rails_meet = false already there, the switches of one place in their pods meet in a plane of their own. So
// every switch has as many cables as its neighbours (a parallel-port generalised fat tree; Zahavi, "Fat-tree
// routing and node ordering providing contention free traffic for MPI global collectives", 2012).
struct ClosShape {
  std::string name = "clos";
  std::string host_prefix = "host";
  uint32_t hosts = 0, nics = 1;
  bool rails_meet = true;
  std::vector<TierShape> tiers;
};

// Each throws std::invalid_argument when the numbers do not fit together, or what they make would not fit
// in kMostTopologyBytes.
inline constexpr double kMostTopologyBytes = 4e9;
Topology build_clos(const ClosShape&);

// k-ary, 3 tiers (Al-Fares et al., SIGCOMM 2008): k^3/4 hosts with one NIC, all cables alike.
ClosShape fat_tree(uint32_t k, Rate, Duration delay);

// Two switches, `left` and `right` hosts, one cable between. The right switch stands a tier higher, so that
// the cable has a lower end.
struct DumbbellShape {
  std::string name = "dumbbell", host_prefix = "host";
  uint32_t left = 2, right = 2;
  Rate host_rate, rate;
  Duration host_delay{0}, delay{0};
};
Topology build_dumbbell(const DumbbellShape&);

}  // namespace megascale
