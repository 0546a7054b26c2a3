// The learning rate of each step: a linear warm-up, then half a cosine down to a floor.
#pragma once
#include <cstddef>

namespace megascale::trainer {

struct Schedule {
  double peak = 1e-3;
  double floor = 1e-4;
  size_t warmup = 0;  // steps: step k < warmup has peak * (k + 1) / warmup
  size_t steps = 1;   // of the whole run

  double rate(size_t step) const;  // steps count from 0; after the last the floor stays
};

}  // namespace megascale::trainer
