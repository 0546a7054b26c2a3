// One run of a command in a pretended fabric: starts a process a rank, plays the faults, waits, cleans up.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cc/units.h"
#include "fabric_tools/lab/plan.h"
#include "fabric_tools/lab/schedule.h"

namespace megascale::lab {

struct JobOptions {
  Shape shape;
  std::vector<std::string> command;
  std::string faults;               // a file, or "none"
  std::string after_file;           // faults count from when this file appears
  std::optional<Duration> timeout;  // for the whole command
  Duration grace{10s};              // for the others, once a rank has failed
  std::string events;               // JSON lines
  std::string logs;                 // folder for the output of ranks; empty: all to our own
  bool keep = false;                // leave the namespaces
  bool loopback = false;            // use loopback addresses even where namespaces can be had
};

// The exit status of the first rank that failed (128 + signal), 1 at the timeout, 128 + signal when we are
// told to stop, 0 when every rank was well. Throws std::runtime_error when the fabric cannot be set up,
// std::invalid_argument when the options are wrong.
int run_job(const JobOptions& options);

}  // namespace megascale::lab
