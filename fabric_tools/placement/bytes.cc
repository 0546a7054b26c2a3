#include "fabric_tools/placement/bytes.h"

namespace megascale {
namespace {

void add(BytesByTier& sums, const Communication& c, double times, const Placement& placement,
         const Reach& reach) {
  const auto dimension = static_cast<size_t>(c.dimension);
  const double bytes = static_cast<double>(c.bytes_per_rank()) * times;
  const size_t hops = c.kind == CommunicationKind::kSend ? 1 : c.ranks.size();
  for (size_t i = 0; i < hops && bytes > 0; ++i) {
    const uint32_t from = c.ranks[i], to = c.ranks[(i + 1) % c.ranks.size()];
    const Placement::Way way = placement.way(from, to);
    if (way.source == kNone) sums.inside_host[dimension] += bytes;
    else sums.at_tier[dimension][reach.tier(way.source, way.destination)] += bytes;
  }
}

}  // namespace

double BytesByTier::inside_host_sum() const {
  double sum = 0;
  for (const double bytes : inside_host) sum += bytes;
  return sum;
}

double BytesByTier::sum_at_tier(uint32_t tier) const {
  double sum = 0;
  for (const auto& bytes : at_tier) sum += bytes[tier];
  return sum;
}

BytesByTier bytes_by_tier(const TrainingModel& model, const Parallel& parallel, const Placement& placement,
                          const Reach& reach) {
  BytesByTier sums;
  for (auto& tiers : sums.at_tier) tiers.assign(placement.topology->tiers, 0);
  // All micro-batches send the same, between the same ranks: one is enough to count.
  TrainingModel one = model;
  one.micro_batches = 1;
  for (const Communication& c : step_of(one, parallel).communications)
    add(sums, c, c.dimension == Dimension::kData ? 1 : model.micro_batches, placement, reach);
  return sums;
}

}  // namespace megascale
