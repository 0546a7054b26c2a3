// Random bytes that nobody can guess, from the kernel.
#pragma once
#include <cstdint>
#include <span>

#include "transport/base/result.h"

namespace megascale {

// getrandom(2). It waits only in the first seconds of a host's life; it fails only where the call is
// forbidden, and then no handshake may go on.
Result<void> random_bytes(std::span<uint8_t>);

}  // namespace megascale
