// The options of commands that read topologies which tell no speeds (Slurm's, topograph's).
#pragma once
#include <string>

#include "fabric_tools/topology/read.h"
#include "transport/base/quantity.h"

namespace CLI {
class App;
}

namespace megascale {

struct AssumeOptions {
  uint32_t nics = Assumed().nics;
  std::string host_rate = text_of(Assumed().host_rate), rate = text_of(Assumed().rate),
              delay = text_of(Assumed().delay);

  Assumed assumed() const;  // throws std::invalid_argument
};

// `options` must outlive the command.
void add_assume_options(CLI::App&, AssumeOptions& options);

}  // namespace megascale
