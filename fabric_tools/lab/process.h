// Child processes by argument vector: no shell, a deadline on everything, output kept for the error message.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cc/units.h"

namespace megascale::lab {

using Argv = std::vector<std::string>;

struct CommandResult {
  int status = 0;  // exit status; 128 + signal when a signal ended it; 127 when it could not be started
  bool timed_out = false;
  std::string output;  // stdout and stderr together, at most 1 MiB
  bool ok() const { return status == 0 && !timed_out; }
};

// Full path of a program, or empty. Looks in PATH and in the sbin folders, which a user's PATH often lacks.
std::string find_program(const std::string& name);

// Runs a command to its end, at most for `deadline`; then it is killed.
CommandResult run_command(const Argv& argv, std::string_view input = {}, Duration deadline = 10s);

// The same; throws std::runtime_error with the command line and its output when it fails.
std::string must_run(const Argv& argv, std::string_view input = {});

// A long-running child, leader of its own process group, so that whatever it starts can be ended with it. It
// dies with us even when we are killed.
struct ChildOptions {
  Argv argv;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::string output_file;                                       // empty: our stdout and stderr
};
pid_t start_child(const ChildOptions& options);

// The exit status (as in CommandResult) if the child has ended. Its process group is killed before it is
// reaped: until then the kernel cannot give the group's id to anyone else.
std::optional<int> reap_child(pid_t child);

std::string quoted(const Argv& argv);

}  // namespace megascale::lab
