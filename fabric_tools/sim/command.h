// `megascale-fabric sim` runs one scenario, `megascale-fabric cc-compare` a matrix of them.
#pragma once
#include <string>

#include "fabric_tools/sim/compare.h"

namespace CLI {
class App;
}

namespace megascale {

void add_sim(CLI::App&, int& exit_code);
void add_cc_compare(CLI::App&, int& exit_code);

namespace sim {

// What `sim` prints of its one run, for people.
std::string summary(const Comparison&);

}  // namespace sim
}  // namespace megascale
