// How far the bytes of a training step travel: how many stay inside a host, and how many turn at each tier.
#pragma once
#include <array>
#include <vector>

#include "fabric_tools/placement/placement.h"
#include "fabric_tools/topology/reach.h"

namespace megascale {

struct BytesByTier {
  static constexpr size_t kDimensions = 3;
  // By dimension: bytes between GPUs of a host; and those whose highest switch is of tier i. What turns at
  // tier i has also crossed all tiers below.
  std::array<double, kDimensions> inside_host{};
  std::array<std::vector<double>, kDimensions> at_tier;

  double inside_host_sum() const;
  double sum_at_tier(uint32_t tier) const;
};

// Of one step, as step_of() makes it.
BytesByTier bytes_by_tier(const TrainingModel&, const Parallel&, const Placement&, const Reach&);

}  // namespace megascale
