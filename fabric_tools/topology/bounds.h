// What a topology document may say at most.
#pragma once
#include <cstdint>

namespace megascale {

constexpr uint32_t kMostRails = 64, kMostTiers = 8, kMostGroups = 1'000'000;
constexpr double kLeastRate = 1e6, kMostRate = 1e14;  // bit/s

}  // namespace megascale
