// `megascale-fabric place`: orders hosts for a job, and tells how many bytes of a step cross which tier.
#pragma once

namespace CLI {
class App;
}

namespace megascale {

// Adds the subcommand. When it was called, `exit_code` holds what the program should exit with: 0 all is
// well, 2 called wrongly (also: a topology that is not sound, a job that does not fit), 3 could not be done.
void add_place(CLI::App&, int& exit_code);

}  // namespace megascale
