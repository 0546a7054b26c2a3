// The report of a comparison for people: one file that needs nothing else, with a table and plots drawn as
// SVG: slowdowns, queues and rates over time, and which links were how busy.
#pragma once
#include <string>

#include "fabric_tools/sim/runs/comparison.h"

namespace megascale::sim {

std::string html(const Comparison&);

}  // namespace megascale::sim
