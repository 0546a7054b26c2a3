// A GPT: learned positions, LayerNorm before attention and before the MLP, GeLU; forward and backward written
// out.
//
// Templated on the scalar: float trains, double lets finite differences check the gradients. Parameters and
// gradients are one flat vector each (model/shape.h has the order), which is what the network sees.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "trainer/kernels/kernels.h"
#include "trainer/model/shape.h"

namespace megascale::trainer {

// Sequences of `context` tokens one after another; targets[i] is the token after inputs[i].
struct Batch {
  std::span<const Token> inputs;
  std::span<const Token> targets;
  size_t sequences = 0;
};

template <class T>
class Gpt {
 public:
  // max_sequences: the most a batch may hold. The kernels must outlive the model.
  Gpt(const ModelShape& shape, Kernels<T>& kernels, size_t max_sequences);

  const ModelShape& shape() const { return shape_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  size_t parameters_count() const { return parameters_.size(); }
  std::span<T> parameters() { return parameters_; }
  std::span<T> gradients() { return gradients_; }
  void zero_gradients();

  // The sum of the losses of all positions, in nats. Throws std::invalid_argument on a token outside the
  // vocabulary or a batch of the wrong size.
  double forward(const Batch& batch);

  // Called when the gradients from this offset to the end of the flat vector are final.
  using Ready = std::function<void(size_t offset)>;

  // Adds scale * d(sum of losses)/d(parameters) of the batch last given to forward.
  void backward(const Batch& batch, T scale, const Ready& ready = {});

 private:
  struct Norm {
    size_t gain, bias;  // offsets of the parameters
  };
  struct Linear {
    size_t weight, bias;
    size_t out, in;
  };
  struct Layer {
    Norm norm1, norm2;
    Linear qkv, attention_out, mlp_in, mlp_out;
  };
  struct Statistics {
    std::vector<T> mean, inverse_deviation;
  };
  struct Activations {
    Statistics statistics1, statistics2;
    std::vector<T> norm1, qkv, attention, log_sum, middle, norm2, hidden, gelu, output;
  };

  void lay_out();
  void allocate(size_t max_sequences);
  void check(const Batch& batch) const;
  size_t rows(const Batch& batch) const { return batch.sequences * shape_.context; }
  AttentionShape attention_shape(const Batch& batch) const;
  const std::vector<T>& input_of(size_t layer) const {
    return layer == 0 ? embedded_ : activations_[layer - 1].output;
  }

  void apply(const Linear& linear, size_t rows, const std::vector<T>& x, std::vector<T>* y);
  void apply(const Norm& norm, size_t rows, const std::vector<T>& x, std::vector<T>* y,
             Statistics* statistics);
  void apply_gradient(const Linear& linear, size_t rows, const std::vector<T>& dy, const std::vector<T>& x,
                      std::vector<T>* dx);
  void apply_gradient(const Norm& norm, size_t rows, const std::vector<T>& dy, const std::vector<T>& x,
                      const Statistics& statistics, std::vector<T>* dx);
  void forward_layer(size_t layer, const Batch& batch);
  void backward_layer(size_t layer, const Batch& batch);

  ModelShape shape_;
  Kernels<T>& kernels_;
  std::vector<Tensor> tensors_;
  std::vector<Layer> layers_;
  Norm final_norm_{};
  size_t embedding_ = 0, positions_ = 0, head_ = 0;
  size_t max_rows_ = 0;

  std::vector<T> parameters_, gradients_;
  std::vector<T> embedded_, normed_, logits_, losses_, log_sum_;
  Statistics statistics_;
  std::vector<Activations> activations_;
  std::vector<T> d_residual_, d_width_, d_qkv_, d_hidden_;  // gradients on their way back
};

extern template class Gpt<float>;
extern template class Gpt<double>;

}  // namespace megascale::trainer
