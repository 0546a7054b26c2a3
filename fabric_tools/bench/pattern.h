// What goes into a collective and what must come out: every element a function of (rank, index, iteration),
// small whole numbers, so that any order of reduction gives exactly the same.
#pragma once
#include <cstddef>
#include <cstdint>

#include "fabric_tools/bench/options.h"

namespace megascale {

struct Pattern {
  Collective collective;
  host::DataType type;
  host::ReduceOp op;
  int ranks;
  int root;

  // Elements of a rank's buffers when the collective moves `count`: of each share for those with shares, else
  // of the whole buffer.
  size_t input_elements(size_t count) const;
  size_t output_elements(size_t count) const;

  void fill_input(void* data, int rank, size_t count, uint32_t iteration) const;
  // How many elements of a rank's output are not what they should be.
  uint64_t wrong_elements(const void* data, int rank, size_t count, uint32_t iteration) const;
};

}  // namespace megascale
