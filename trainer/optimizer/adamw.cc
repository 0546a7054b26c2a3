#include "trainer/optimizer/adamw.h"

#include <cmath>
#include <stdexcept>

namespace megascale::trainer {

template <class T>
AdamW<T>::AdamW(const std::vector<Tensor>& tensors, const AdamWOptions& options, Kernels<T>& kernels)
    : options_(options), kernels_(kernels) {
  size_t count = 0;
  for (const Tensor& tensor : tensors) {
    if (!ranges_.empty() && ranges_.back().decays == tensor.decays) ranges_.back().count += tensor.count();
    else ranges_.push_back({tensor.offset, tensor.count(), tensor.decays});
    count += tensor.count();
  }
  means_.resize(count);
  squares_.resize(count);
}

template <class T>
double AdamW<T>::step(double rate, std::span<const T> gradients, std::span<T> weights) {
  if (gradients.size() != means_.size() || weights.size() != means_.size())
    throw std::invalid_argument("AdamW made for " + std::to_string(means_.size()) + " weights was given " +
                                std::to_string(weights.size()));
  const double norm = std::sqrt(kernels_.sum_of_squares(gradients.size(), gradients.data()));
  ++steps_;
  AdamWStep step;
  step.rate = rate;
  step.beta1 = options_.beta1;
  step.beta2 = options_.beta2;
  step.epsilon = options_.epsilon;
  step.correction1 = 1 - std::pow(options_.beta1, static_cast<double>(steps_));
  step.correction2 = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
  step.gradient_scale = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1.0;
  for (const Range& range : ranges_) {
    step.weight_decay = range.decays ? options_.weight_decay : 0;
    kernels_.adamw(range.count, step, gradients.data() + range.offset, weights.data() + range.offset,
                   means_.data() + range.offset, squares_.data() + range.offset);
  }
  return norm;
}

template class AdamW<float>;
template class AdamW<double>;

}  // namespace megascale::trainer
