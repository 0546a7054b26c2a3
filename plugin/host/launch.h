// Runs N copies of the running program on this host, each with its place in the job in its environment:
// MEGASCALE_RANK, MEGASCALE_RANKS, MEGASCALE_LOCAL_RANK, MEGASCALE_RENDEZVOUS.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace megascale::host {

struct LocalLaunch {
  int ranks = 1;
  std::vector<std::string> arguments;    // after the program's name
  std::string program;                   // empty: the running one
  std::vector<std::string> environment;  // NAME=value, beside what this process has
  std::string rendezvous;                // empty: a free port of the loopback address
  std::chrono::seconds grace{5};  // for the others to report, once one has failed; then they are killed
};

struct LaunchResult {
  int exit_code = 0;    // the first failed rank's; 128 + signal when a signal ended it; 0 when all went well
  std::string failure;  // which rank failed first, and how; empty when all went well
};

// Waits for all. SIGINT, SIGTERM and SIGHUP are passed on meanwhile. The children die with this process.
// Throws std::runtime_error when a process cannot be started.
LaunchResult local_ranks(const LocalLaunch&);

// 127.0.0.1:port with a port that is free now and outside the range that outgoing connections use.
std::string free_rendezvous();

}  // namespace megascale::host
