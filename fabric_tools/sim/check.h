// Refuses what cannot be simulated, before anything is built.
#pragma once
#include "fabric_tools/sim/simulation.h"

namespace megascale::sim {

// Throws std::invalid_argument that names what is wrong, its value and what is accepted.
void check(const Setup&);

}  // namespace megascale::sim
