// What a topology document may say at most.
#pragma once
#include "cc/units.h"

namespace megascale {

constexpr uint32_t kMostRails = 64, kMostTiers = 8, kMostGroups = 1'000'000;

// Of links: 1M to 100T bit/s, 0 to 1 s.
constexpr bool is_allowed(Rate rate) { return rate.bits_per_second >= 1e6 && rate.bits_per_second <= 1e14; }
constexpr bool is_allowed(Duration delay) { return delay >= Duration(0) && delay <= 1s; }

}  // namespace megascale
