// `megascale-fabric lab`: runs any command on a pretended fabric while its rails fail, and reports what
// happened.
#pragma once

namespace CLI {
class App;
}

namespace megascale {

// Adds the subcommand. When it was called, `exit_code` holds what the program should exit with: 0 all is
// well, 1 what was run is not (or a failing rank's own status), 2 called wrongly, 3 could not be done.
void add_lab(CLI::App& app, int& exit_code);

}  // namespace megascale
