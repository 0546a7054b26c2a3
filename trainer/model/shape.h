// The shape of a GPT and what follows from it by arithmetic: parameters, work, memory.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace megascale::trainer {

struct ModelShape {
  size_t layers = 4;
  size_t heads = 4;
  size_t width = 128;
  size_t context = 128;
  size_t vocabulary = 256;
  bool tied = true;  // the output projection is the embedding table

  size_t hidden() const { return 4 * width; }
  bool operator==(const ModelShape&) const = default;
};

enum class Start : unsigned char { zero, one, normal };

// One named tensor inside the flat vector of parameters.
struct Tensor {
  std::string name;
  size_t rows = 0;  // 1 for a vector
  size_t columns = 0;
  size_t offset = 0;  // elements from the start of the flat vector
  Start start = Start::zero;
  double deviation = 0;  // of `normal`
  bool decays = false;   // weight decay applies to matrices only

  size_t count() const { return rows * columns; }
};

// All tensors, in the order of the forward pass: the backward pass finishes their gradients from the last to
// the first, so that whatever is ready is always one range at the end of the flat vector.
std::vector<Tensor> tensors_of(const ModelShape& shape);
size_t parameters_of(const ModelShape& shape);

// Floating point operations of one token, forward and backward: 6 (12 L C^2 + V C) + 6 L C T, causal
// attention counted as the half it is.
double flops_per_token(const ModelShape& shape);

// Numbers that a rank keeps between forward and backward for `sequences` at once, and as scratch.
size_t activations_of(const ModelShape& shape, size_t sequences);

}  // namespace megascale::trainer
