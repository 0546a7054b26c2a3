// What `sim` prints of its one run, for people.
#pragma once
#include <string>

#include "fabric_tools/sim/runs/comparison.h"

namespace megascale::sim {

std::string summary(const Comparison&);

}  // namespace megascale::sim
