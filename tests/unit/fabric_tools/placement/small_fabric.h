// A fabric for tests: 8 servers with 2 NICs, 4 ToR sets of 2 servers, 2 pods of 2 sets, and a core.
#pragma once
#include "fabric_tools/topology/generate.h"

namespace megascale {

inline Topology small_fabric() {
  const Rate rate = Rate::gigabits(100);
  return build_clos({.name = "small",
                     .hosts = 8,
                     .nics = 2,
                     .tiers = {{.name = "tor", .rate = rate, .groups = 2, .up = 2},
                               {.name = "agg", .rate = rate, .groups = 2, .up = 4},
                               {.name = "core", .rate = rate}}});
}

}  // namespace megascale
