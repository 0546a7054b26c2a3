// How `megascale-fabric` is put together: each subcommand has one function that adds it to the program. When
// a subcommand was called, `exit_code` holds what the program should exit with. What one throws becomes a
// sentence and kCalledWrongly (std::invalid_argument) or kNotMeasured (all else).
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace megascale {

enum ExitCode : int {
  kAllWell = 0,
  kNotWell = 1,        // what was checked is wrong
  kCalledWrongly = 2,  // arguments or environment
  kNotMeasured = 3,    // could not be done
};

// `arguments`: the program's own, with which it starts copies of itself.
void add_bench(CLI::App&, const std::vector<std::string>& arguments, int& exit_code);
void add_cc_compare(CLI::App&, int& exit_code);
void add_env(CLI::App&, int& exit_code);
void add_lab(CLI::App&, int& exit_code);  // or a failing rank's own status
void add_place(CLI::App&, int& exit_code);
void add_sim(CLI::App&, int& exit_code);
void add_topology(CLI::App&, int& exit_code);

}  // namespace megascale
