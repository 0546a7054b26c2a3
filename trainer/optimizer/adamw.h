// AdamW over a model's flat vectors: clipping by the global norm, weight decay on matrices only.
#pragma once
#include <span>
#include <vector>

#include "trainer/kernels/kernels.h"
#include "trainer/model/shape.h"

namespace megascale::trainer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // the largest norm of all gradients together; 0: no clipping
};

template <class T>
class AdamW {
 public:
  AdamW(const std::vector<Tensor>& tensors, const AdamWOptions& options, Kernels<T>& kernels);

  // One step at this learning rate. Returns the gradients' norm before clipping.
  double step(double rate, std::span<const T> gradients, std::span<T> weights);

  std::span<const T> means() const { return means_; }
  std::span<const T> squares() const { return squares_; }

 private:
  // Neighbouring tensors that decay alike are one range: few calls over long loops.
  struct Range {
    size_t offset, count;
    bool decays;
  };
  std::vector<Range> ranges_;
  AdamWOptions options_;
  Kernels<T>& kernels_;
  std::vector<T> means_, squares_;
  long steps_ = 0;
};

extern template class AdamW<float>;
extern template class AdamW<double>;

}  // namespace megascale::trainer
