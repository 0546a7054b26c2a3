// Times and checks a collective, one rank's part of it.
#pragma once
#include <vector>

#include "fabric_tools/bench/report.h"
#include "plugin/host/communicator.h"

namespace megascale {

// All sizes, once, or until the duration is over. Rank 0 prints. The rows are the same at every rank. Throws
// host::NetworkError.
std::vector<CollectiveRow> run_collective(host::Communicator&, const Circumstances&);

}  // namespace megascale
