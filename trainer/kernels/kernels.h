// What a model asks of a device: the operators of a GPT, forward and backward, as one interface.
//
// All matrices are row-major and dense. "rows" are positions (sequences x context). Gradients of weights are
// added to what is there, since a weight may be used more than once in a step; gradients of activations are
// written, except where a residual path makes them a sum (said so there). No operator allocates on the way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace megascale::trainer {

using Token = int32_t;

struct LinearShape {
  size_t rows = 0;
  size_t in = 0;
  size_t out = 0;
};

struct AttentionShape {
  size_t sequences = 0;
  size_t context = 0;  // positions of each sequence
  size_t heads = 0;
  size_t width = 0;  // of all heads together; a head has width / heads

  size_t head_width() const { return width / heads; }
  size_t rows() const { return sequences * context; }
};

// One step of AdamW (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2), with the step's constants worked
// out.
struct AdamWStep {
  double rate = 0;       // learning rate of this step
  double beta1 = 0.9;    // decay of the mean of gradients
  double beta2 = 0.999;  // decay of the mean of their squares
  double epsilon = 1e-8;
  double weight_decay = 0;    // decoupled: weights shrink by rate * weight_decay
  double correction1 = 1;     // 1 - beta1^step
  double correction2 = 1;     // 1 - beta2^step
  double gradient_scale = 1;  // gradients are multiplied by it first: clipping by norm
};

template <class T>
class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual std::string name() const = 0;

  // y[rows, out] = x[rows, in] w[out, in]^T + bias[out]; bias may be null.
  virtual void linear(LinearShape s, const T* x, const T* w, const T* bias, T* y) = 0;
  // dx = dy w
  virtual void linear_input_gradient(LinearShape s, const T* dy, const T* w, T* dx) = 0;
  // dw += dy^T x, dbias += the sum of dy's rows; dbias may be null.
  virtual void linear_weight_gradient(LinearShape s, const T* dy, const T* x, T* dw, T* dbias) = 0;

  // y = (x - mean) * inverse_deviation * gain + bias, a row at a time; mean and inverse_deviation[rows] are
  // kept.
  virtual void layer_norm(size_t rows, size_t width, const T* x, const T* gain, const T* bias, T* y, T* mean,
                          T* inverse_deviation) = 0;
  // dx += the gradient (x also feeds the residual path); dgain += , dbias += .
  virtual void layer_norm_gradient(size_t rows, size_t width, const T* dy, const T* x, const T* gain,
                                   const T* mean, const T* inverse_deviation, T* dx, T* dgain, T* dbias) = 0;

  // GeLU by its tanh form (Hendrycks and Gimpel, arXiv:1606.08415); the gradient may be written over dy.
  virtual void gelu(size_t count, const T* x, T* y) = 0;
  virtual void gelu_gradient(size_t count, const T* dy, const T* x, T* dx) = 0;

  // Causal attention over qkv[rows, 3 * width] (queries, keys, values side by side, heads side by side in
  // each). The scores are never kept: log_sum[sequences, heads, context] is enough to make them again.
  virtual void attention(AttentionShape s, const T* qkv, T* out, T* log_sum) = 0;
  virtual void attention_gradient(AttentionShape s, const T* qkv, const T* out, const T* log_sum,
                                  const T* dout, T* dqkv) = 0;

  // losses[row] = -log softmax(logits[row])[targets[row]]; log_sum[rows] is kept for the gradient.
  virtual void cross_entropy(size_t rows, size_t vocabulary, const T* logits, const Token* targets, T* losses,
                             T* log_sum) = 0;
  // logits become scale * d(sum of losses)/d(logits).
  virtual void cross_entropy_gradient(size_t rows, size_t vocabulary, T* logits, const Token* targets,
                                      const T* log_sum, T scale) = 0;

  // y[row] = table[tokens[row]] + positions[row % context]
  virtual void embed(size_t rows, size_t context, size_t width, const Token* tokens, const T* table,
                     const T* positions, T* y) = 0;
  virtual void embed_gradient(size_t rows, size_t context, size_t width, const Token* tokens, const T* dy,
                              T* dtable, T* dpositions) = 0;

  virtual void add(size_t count, const T* a, const T* b, T* sum) = 0;
  virtual double sum_of_squares(size_t count, const T* x) = 0;
  virtual void adamw(size_t count, const AdamWStep& step, const T* gradient, T* weight, T* mean,
                     T* square) = 0;
};

// Loops that can be read beside the formulas: the oracle of every other implementation, and in float64 of
// itself through finite differences.
std::unique_ptr<Kernels<float>> make_reference_kernels_float();
std::unique_ptr<Kernels<double>> make_reference_kernels_double();

// float32 on the CPU: oneDNN's GEMM and vector loops for the instruction set found at run time. threads: how
// many OpenMP threads this process may use.
std::unique_ptr<Kernels<float>> make_cpu_kernels(int threads);

}  // namespace megascale::trainer
