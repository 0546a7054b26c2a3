// `megascale-fabric topology`: checks a topology, tells what it is made of, and keeps it in our form.
#pragma once

namespace CLI {
class App;
}

namespace megascale {

// Adds the subcommand. When it was called, `exit_code` holds what the program should exit with: 0 the
// topology is sound, 1 it is not, 2 called wrongly, 3 could not be done.
void add_topology(CLI::App&, int& exit_code);

}  // namespace megascale
