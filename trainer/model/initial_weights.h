// The weights a run starts from: a function of seed, tensor and element alone, the same on every rank.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/model/shape.h"
#include "trainer/random/counter.h"

namespace megascale::trainer {

template <class T>
void initial_weights(const std::vector<Tensor>& tensors, uint64_t seed, std::span<T> weights) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    const Tensor& tensor = tensors[t];
    for (size_t i = 0; i < tensor.count(); ++i) {
      double value = tensor.start == Start::one ? 1 : 0;
      if (tensor.start == Start::normal) value = tensor.deviation * counter_normal(seed, t, i);
      weights[tensor.offset + i] = static_cast<T>(value);
    }
  }
}

}  // namespace megascale::trainer
