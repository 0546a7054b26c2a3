// The logger that programs hand to a plugin, as NCCL hands its own: warnings always reach stderr, the rest by
// NCCL_DEBUG. It remembers the last warning, which usually says why a call failed.
#pragma once
#include <string>

#include "plugin/abi/net.h"

namespace megascale::host {

abi::LogFunction logger();

// The newest warning that a plugin gave on this thread, else one of the last seconds on any; empty when there
// is none.
std::string take_last_warning();

// "ncclRemoteError (6)"
std::string describe(abi::Result result);

}  // namespace megascale::host
