// `megascale-fabric sim` runs one scenario, `megascale-fabric cc-compare` a matrix of them.
#pragma once

namespace CLI {
class App;
}

namespace megascale {

void add_sim(CLI::App&, int& exit_code);
void add_cc_compare(CLI::App&, int& exit_code);

}  // namespace megascale
