// The subcommands of megascale-train.
//
// Each adds itself to the command line, and when chosen puts its exit code where main finds it: 0 all is
// well, 1 the run failed, 2 it was called or configured wrongly.
#pragma once
#include <CLI/CLI.hpp>

namespace megascale::trainer {

void add_run(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_text(CLI::App& app, int& exit_code);

// Does a subcommand's work; what it throws becomes a sentence on stderr and an exit code.
template <class Work>
int guarded(Work work);

// For guarded: prints the exception being handled.
int explain_failure();

template <class Work>
int guarded(Work work) {
  try {
    return work();
  } catch (...) {
    return explain_failure();
  }
}

}  // namespace megascale::trainer
