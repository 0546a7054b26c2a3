#include "trainer/model/shape.h"

#include <cmath>

namespace megascale::trainer {
namespace {

// GPT-2's initialisation: 0.02, and the projections that feed the residual path scaled down with their
// number.
constexpr double kDeviation = 0.02;

void add(std::vector<Tensor>* all, std::string name, size_t rows, size_t columns, Start start,
         double deviation, bool decays) {
  const size_t offset = all->empty() ? 0 : all->back().offset + all->back().count();
  all->push_back({std::move(name), rows, columns, offset, start, deviation, decays});
}

void add_norm(std::vector<Tensor>* all, const std::string& name, size_t width) {
  add(all, name + ".gain", 1, width, Start::one, 0, false);
  add(all, name + ".bias", 1, width, Start::zero, 0, false);
}

void add_linear(std::vector<Tensor>* all, const std::string& name, size_t out, size_t in, double deviation) {
  add(all, name + ".weight", out, in, Start::normal, deviation, true);
  add(all, name + ".bias", 1, out, Start::zero, 0, false);
}

}  // namespace

std::vector<Tensor> tensors_of(const ModelShape& s) {
  std::vector<Tensor> all;
  add(&all, "embedding", s.vocabulary, s.width, Start::normal, kDeviation, true);
  add(&all, "positions", s.context, s.width, Start::normal, kDeviation, true);
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(s.layers));
  for (size_t l = 0; l < s.layers; ++l) {
    const std::string layer = "layer" + std::to_string(l);
    add_norm(&all, layer + ".norm1", s.width);
    add_linear(&all, layer + ".qkv", 3 * s.width, s.width, kDeviation);
    add_linear(&all, layer + ".attention_out", s.width, s.width, residual);
    add_norm(&all, layer + ".norm2", s.width);
    add_linear(&all, layer + ".mlp_in", s.hidden(), s.width, kDeviation);
    add_linear(&all, layer + ".mlp_out", s.width, s.hidden(), residual);
  }
  add_norm(&all, "norm", s.width);
  if (!s.tied) add(&all, "head", s.vocabulary, s.width, Start::normal, kDeviation, true);
  return all;
}

size_t parameters_of(const ModelShape& shape) {
  const auto all = tensors_of(shape);
  return all.back().offset + all.back().count();
}

double flops_per_token(const ModelShape& shape) {
  const double l = static_cast<double>(shape.layers), c = static_cast<double>(shape.width);
  const double t = static_cast<double>(shape.context), v = static_cast<double>(shape.vocabulary);
  return 6 * (12 * l * c * c + v * c) + 6 * l * c * t;
}

size_t activations_of(const ModelShape& s, size_t sequences) {
  const size_t rows = sequences * s.context;
  // norm1, qkv, attention, middle, norm2, mlp_in, gelu, output; two norms' statistics; log_sum of the
  // attention
  const size_t layer = rows * (5 * s.width + 3 * s.width + 2 * s.hidden()) + rows * 4 + rows * s.heads;
  // embedding, final norm and its statistics, logits, losses, log_sum; then the gradients on their way back
  const size_t ends = rows * (2 * s.width + 2 + s.vocabulary + 2);
  const size_t backward = rows * (2 * s.width + 3 * s.width + s.hidden());
  return s.layers * layer + ends + backward;
}

}  // namespace megascale::trainer
