// The options of commands that read topologies which tell no speeds (Slurm's, topograph's).
#pragma once
#include <string>

#include "fabric_tools/topology/read.h"

namespace CLI {
class App;
}

namespace megascale {

struct AssumeOptions {
  uint32_t nics = 1;
  std::string host_rate = "200G", rate = "400G", delay = "1us";

  Assumed assumed() const;  // throws std::invalid_argument
};

// `options` must outlive the command.
void add_assume_options(CLI::App&, AssumeOptions& options);

}  // namespace megascale
