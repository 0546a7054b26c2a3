#include "trainer/model/gpt.h"

#include <algorithm>
#include <stdexcept>

namespace megascale::trainer {

template <class T>
Gpt<T>::Gpt(const ModelShape& shape, Kernels<T>& kernels, size_t max_sequences)
    : shape_(shape), kernels_(kernels), tensors_(tensors_of(shape)) {
  if (shape.heads == 0 || shape.width % shape.heads != 0)
    throw std::invalid_argument("a model of width " + std::to_string(shape.width) + " cannot have " +
                                std::to_string(shape.heads) + " heads: the width must divide by them");
  lay_out();
  allocate(max_sequences);
}

template <class T>
void Gpt<T>::lay_out() {
  auto at = [&](const std::string& name) -> const Tensor& {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const Tensor& tensor) { return tensor.name == name; });
    if (found == tensors_.end()) throw std::logic_error("the model has no tensor " + name);
    return *found;
  };
  auto norm = [&](const std::string& name) {
    return Norm{at(name + ".gain").offset, at(name + ".bias").offset};
  };
  auto linear = [&](const std::string& name) {
    const Tensor& weight = at(name + ".weight");
    return Linear{weight.offset, at(name + ".bias").offset, weight.rows, weight.columns};
  };
  embedding_ = at("embedding").offset;
  positions_ = at("positions").offset;
  for (size_t l = 0; l < shape_.layers; ++l) {
    const std::string layer = "layer" + std::to_string(l);
    layers_.push_back({norm(layer + ".norm1"), norm(layer + ".norm2"), linear(layer + ".qkv"),
                       linear(layer + ".attention_out"), linear(layer + ".mlp_in"),
                       linear(layer + ".mlp_out")});
  }
  final_norm_ = norm("norm");
  head_ = shape_.tied ? embedding_ : at("head").offset;
}

template <class T>
void Gpt<T>::allocate(size_t max_sequences) {
  const size_t count = tensors_.back().offset + tensors_.back().count();
  const size_t n = max_rows_ = max_sequences * shape_.context, c = shape_.width;
  parameters_.resize(count);
  gradients_.resize(count);
  auto statistics = [&] { return Statistics{std::vector<T>(n), std::vector<T>(n)}; };
  for (size_t l = 0; l < shape_.layers; ++l) {
    Activations a;
    a.statistics1 = statistics();
    a.statistics2 = statistics();
    for (auto* v : {&a.norm1, &a.attention, &a.middle, &a.norm2, &a.output}) v->resize(n * c);
    a.qkv.resize(n * 3 * c);
    a.log_sum.resize(n * shape_.heads);
    a.hidden.resize(n * shape_.hidden());
    a.gelu.resize(n * shape_.hidden());
    activations_.push_back(std::move(a));
  }
  statistics_ = statistics();
  for (auto* v : {&embedded_, &normed_, &d_residual_, &d_width_}) v->resize(n * c);
  logits_.resize(n * shape_.vocabulary);
  losses_.resize(n);
  log_sum_.resize(n);
  d_qkv_.resize(n * 3 * c);
  d_hidden_.resize(n * shape_.hidden());
}

template <class T>
void Gpt<T>::check(const Batch& batch) const {
  const size_t n = rows(batch);
  if (batch.sequences == 0 || n > max_rows_ || batch.inputs.size() != n || batch.targets.size() != n)
    throw std::invalid_argument("a batch of " + std::to_string(batch.sequences) + " sequences with " +
                                std::to_string(batch.inputs.size()) + " tokens does not fit the model's " +
                                std::to_string(max_rows_) + " positions");
  auto known = [&](Token token) { return token >= 0 && static_cast<size_t>(token) < shape_.vocabulary; };
  for (const auto& tokens : {batch.inputs, batch.targets})
    for (const Token token : tokens)
      if (!known(token))
        throw std::invalid_argument("token " + std::to_string(token) + " is outside the vocabulary of " +
                                    std::to_string(shape_.vocabulary));
}

template <class T>
AttentionShape Gpt<T>::attention_shape(const Batch& batch) const {
  return {batch.sequences, shape_.context, shape_.heads, shape_.width};
}

template <class T>
void Gpt<T>::zero_gradients() {
  std::fill(gradients_.begin(), gradients_.end(), T(0));
}

template <class T>
void Gpt<T>::apply(const Linear& linear, size_t n, const std::vector<T>& x, std::vector<T>* y) {
  const T* p = parameters_.data();
  kernels_.linear({n, linear.in, linear.out}, x.data(), p + linear.weight, p + linear.bias, y->data());
}

template <class T>
void Gpt<T>::apply(const Norm& norm, size_t n, const std::vector<T>& x, std::vector<T>* y,
                   Statistics* statistics) {
  const T* p = parameters_.data();
  kernels_.layer_norm(n, shape_.width, x.data(), p + norm.gain, p + norm.bias, y->data(),
                      statistics->mean.data(), statistics->inverse_deviation.data());
}

template <class T>
void Gpt<T>::apply_gradient(const Linear& linear, size_t n, const std::vector<T>& dy, const std::vector<T>& x,
                            std::vector<T>* dx) {
  const LinearShape shape{n, linear.in, linear.out};
  T* g = gradients_.data();
  kernels_.linear_weight_gradient(shape, dy.data(), x.data(), g + linear.weight, g + linear.bias);
  kernels_.linear_input_gradient(shape, dy.data(), parameters_.data() + linear.weight, dx->data());
}

template <class T>
void Gpt<T>::apply_gradient(const Norm& norm, size_t n, const std::vector<T>& dy, const std::vector<T>& x,
                            const Statistics& statistics, std::vector<T>* dx) {
  T* g = gradients_.data();
  kernels_.layer_norm_gradient(n, shape_.width, dy.data(), x.data(), parameters_.data() + norm.gain,
                               statistics.mean.data(), statistics.inverse_deviation.data(), dx->data(),
                               g + norm.gain, g + norm.bias);
}

template <class T>
double Gpt<T>::forward(const Batch& batch) {
  check(batch);
  const size_t n = rows(batch);
  const T* p = parameters_.data();
  kernels_.embed(n, shape_.context, shape_.width, batch.inputs.data(), p + embedding_, p + positions_,
                 embedded_.data());
  for (size_t l = 0; l < shape_.layers; ++l) forward_layer(l, batch);
  apply(final_norm_, n, input_of(shape_.layers), &normed_, &statistics_);
  kernels_.linear({n, shape_.width, shape_.vocabulary}, normed_.data(), p + head_, nullptr, logits_.data());
  kernels_.cross_entropy(n, shape_.vocabulary, logits_.data(), batch.targets.data(), losses_.data(),
                         log_sum_.data());
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(losses_[i]);
  return sum;
}

template <class T>
void Gpt<T>::forward_layer(size_t l, const Batch& batch) {
  const Layer& layer = layers_[l];
  Activations& a = activations_[l];
  const std::vector<T>& x = input_of(l);
  const size_t n = rows(batch), count = n * shape_.width;
  apply(layer.norm1, n, x, &a.norm1, &a.statistics1);
  apply(layer.qkv, n, a.norm1, &a.qkv);
  kernels_.attention(attention_shape(batch), a.qkv.data(), a.attention.data(), a.log_sum.data());
  apply(layer.attention_out, n, a.attention, &a.middle);
  kernels_.add(count, x.data(), a.middle.data(), a.middle.data());
  apply(layer.norm2, n, a.middle, &a.norm2, &a.statistics2);
  apply(layer.mlp_in, n, a.norm2, &a.hidden);
  kernels_.gelu(n * shape_.hidden(), a.hidden.data(), a.gelu.data());
  apply(layer.mlp_out, n, a.gelu, &a.output);
  kernels_.add(count, a.middle.data(), a.output.data(), a.output.data());
}

template <class T>
void Gpt<T>::backward(const Batch& batch, T scale, const Ready& ready) {
  const size_t n = rows(batch);
  T* g = gradients_.data();
  const LinearShape head{n, shape_.width, shape_.vocabulary};
  kernels_.cross_entropy_gradient(n, shape_.vocabulary, logits_.data(), batch.targets.data(), log_sum_.data(),
                                  scale);
  kernels_.linear_weight_gradient(head, logits_.data(), normed_.data(), g + head_, nullptr);
  kernels_.linear_input_gradient(head, logits_.data(), parameters_.data() + head_, d_width_.data());
  std::fill(d_residual_.begin(), d_residual_.end(), T(0));
  apply_gradient(final_norm_, n, d_width_, input_of(shape_.layers), statistics_, &d_residual_);
  if (ready) ready(final_norm_.gain);
  for (size_t l = shape_.layers; l-- > 0;) {
    backward_layer(l, batch);
    if (ready) ready(layers_[l].norm1.gain);
  }
  kernels_.embed_gradient(n, shape_.context, shape_.width, batch.inputs.data(), d_residual_.data(),
                          g + embedding_, g + positions_);
  if (ready) ready(0);
}

// d_residual_ comes in as the gradient of the layer's output and leaves as that of its input.
template <class T>
void Gpt<T>::backward_layer(size_t l, const Batch& batch) {
  const Layer& layer = layers_[l];
  const Activations& a = activations_[l];
  const size_t n = rows(batch);
  apply_gradient(layer.mlp_out, n, d_residual_, a.gelu, &d_hidden_);
  kernels_.gelu_gradient(n * shape_.hidden(), d_hidden_.data(), a.hidden.data(), d_hidden_.data());
  apply_gradient(layer.mlp_in, n, d_hidden_, a.norm2, &d_width_);
  apply_gradient(layer.norm2, n, d_width_, a.middle, a.statistics2, &d_residual_);
  apply_gradient(layer.attention_out, n, d_residual_, a.attention, &d_width_);
  kernels_.attention_gradient(attention_shape(batch), a.qkv.data(), a.attention.data(), a.log_sum.data(),
                              d_width_.data(), d_qkv_.data());
  apply_gradient(layer.qkv, n, d_qkv_, a.norm1, &d_width_);
  apply_gradient(layer.norm1, n, d_width_, input_of(l), a.statistics1, &d_residual_);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace megascale::trainer
