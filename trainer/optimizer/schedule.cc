#include "trainer/optimizer/schedule.h"

#include <cmath>
#include <numbers>

namespace megascale::trainer {

double Schedule::rate(size_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step >= steps || steps <= warmup) return step >= steps ? floor : peak;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return floor + 0.5 * (peak - floor) * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace megascale::trainer
