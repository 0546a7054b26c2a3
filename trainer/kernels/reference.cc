// The reference kernels: every operator as its formula says, one loop after another.
#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/kernels/kernels.h"

namespace megascale::trainer {
namespace {

constexpr double kNormEpsilon = 1e-5;

template <class T>
class ReferenceKernels : public Kernels<T> {
 public:
  std::string name() const override { return "reference"; }

  void linear(LinearShape s, const T* x, const T* w, const T* bias, T* y) override {
    for (size_t r = 0; r < s.rows; ++r)
      for (size_t o = 0; o < s.out; ++o) {
        T sum = bias ? bias[o] : T(0);
        for (size_t i = 0; i < s.in; ++i) sum += x[r * s.in + i] * w[o * s.in + i];
        y[r * s.out + o] = sum;
      }
  }

  void linear_input_gradient(LinearShape s, const T* dy, const T* w, T* dx) override {
    for (size_t r = 0; r < s.rows; ++r)
      for (size_t i = 0; i < s.in; ++i) {
        T sum = 0;
        for (size_t o = 0; o < s.out; ++o) sum += dy[r * s.out + o] * w[o * s.in + i];
        dx[r * s.in + i] = sum;
      }
  }

  void linear_weight_gradient(LinearShape s, const T* dy, const T* x, T* dw, T* dbias) override {
    for (size_t r = 0; r < s.rows; ++r)
      for (size_t o = 0; o < s.out; ++o) {
        const T d = dy[r * s.out + o];
        for (size_t i = 0; i < s.in; ++i) dw[o * s.in + i] += d * x[r * s.in + i];
        if (dbias) dbias[o] += d;
      }
  }

  void layer_norm(size_t rows, size_t width, const T* x, const T* gain, const T* bias, T* y, T* mean,
                  T* inverse_deviation) override {
    for (size_t r = 0; r < rows; ++r) {
      const T* row = x + r * width;
      T m = 0;
      for (size_t i = 0; i < width; ++i) m += row[i];
      m /= T(width);
      T variance = 0;
      for (size_t i = 0; i < width; ++i) variance += (row[i] - m) * (row[i] - m);
      variance /= T(width);
      const T inverse = T(1) / std::sqrt(variance + T(kNormEpsilon));
      for (size_t i = 0; i < width; ++i) y[r * width + i] = (row[i] - m) * inverse * gain[i] + bias[i];
      mean[r] = m;
      inverse_deviation[r] = inverse;
    }
  }

  void layer_norm_gradient(size_t rows, size_t width, const T* dy, const T* x, const T* gain, const T* mean,
                           const T* inverse_deviation, T* dx, T* dgain, T* dbias) override {
    for (size_t r = 0; r < rows; ++r) {
      const T* d = dy + r * width;
      const T inverse = inverse_deviation[r];
      auto normal = [&](size_t i) { return (x[r * width + i] - mean[r]) * inverse; };
      T sum = 0, dot = 0;
      for (size_t i = 0; i < width; ++i) {
        sum += d[i] * gain[i];
        dot += d[i] * gain[i] * normal(i);
        dgain[i] += d[i] * normal(i);
        dbias[i] += d[i];
      }
      for (size_t i = 0; i < width; ++i)
        dx[r * width + i] += inverse * (d[i] * gain[i] - sum / T(width) - normal(i) * dot / T(width));
    }
  }

  void gelu(size_t count, const T* x, T* y) override {
    for (size_t i = 0; i < count; ++i) y[i] = T(0.5) * x[i] * (T(1) + std::tanh(inner(x[i])));
  }

  void gelu_gradient(size_t count, const T* dy, const T* x, T* dx) override {
    for (size_t i = 0; i < count; ++i) {
      const T t = std::tanh(inner(x[i]));
      const T slope = T(kRootTwoOverPi) * (T(1) + T(3 * kCubic) * x[i] * x[i]);
      dx[i] = dy[i] * (T(0.5) * (T(1) + t) + T(0.5) * x[i] * (T(1) - t * t) * slope);
    }
  }

  void attention(AttentionShape s, const T* qkv, T* out, T* log_sum) override {
    const size_t width = s.head_width(), stride = 3 * s.width;
    std::vector<T> p(s.context);
    for_each_head(s, [&](size_t first_row, size_t column, size_t index) {
      for (size_t i = 0; i < s.context; ++i) {
        const T* q = qkv + (first_row + i) * stride + column;
        log_sum[index * s.context + i] = probabilities(s, qkv, first_row, column, i, q, p);
        T* o = out + (first_row + i) * s.width + column;
        for (size_t c = 0; c < width; ++c) {
          o[c] = 0;
          for (size_t j = 0; j <= i; ++j)
            o[c] += p[j] * qkv[(first_row + j) * stride + 2 * s.width + column + c];
        }
      }
    });
  }

  void attention_gradient(AttentionShape s, const T* qkv, const T* out, const T* log_sum, const T* dout,
                          T* dqkv) override {
    const size_t width = s.head_width(), stride = 3 * s.width;
    const T scale = T(1) / std::sqrt(T(width));
    (void)out,
        (void)log_sum;  // shortcuts for those who do not mind the scores being made again, here they are
    std::fill(dqkv, dqkv + s.rows() * stride, T(0));
    std::vector<T> p(s.context), dp(s.context);
    for_each_head(s, [&](size_t first_row, size_t column, size_t) {
      for (size_t i = 0; i < s.context; ++i) {
        const T* q = qkv + (first_row + i) * stride + column;
        const T* d = dout + (first_row + i) * s.width + column;
        probabilities(s, qkv, first_row, column, i, q, p);
        T dot = 0;
        for (size_t j = 0; j <= i; ++j) {
          const size_t value = (first_row + j) * stride + 2 * s.width + column;
          dp[j] = 0;
          for (size_t c = 0; c < width; ++c) {
            dp[j] += d[c] * qkv[value + c];
            dqkv[value + c] += p[j] * d[c];
          }
          dot += p[j] * dp[j];
        }
        for (size_t j = 0; j <= i; ++j) {
          const T ds = p[j] * (dp[j] - dot) * scale;
          const size_t key = (first_row + j) * stride + s.width + column;
          for (size_t c = 0; c < width; ++c) {
            dqkv[(first_row + i) * stride + column + c] += ds * qkv[key + c];
            dqkv[key + c] += ds * q[c];
          }
        }
      }
    });
  }

  void cross_entropy(size_t rows, size_t vocabulary, const T* logits, const Token* targets, T* losses,
                     T* log_sum) override {
    for (size_t r = 0; r < rows; ++r) {
      const T* row = logits + r * vocabulary;
      const T largest = *std::max_element(row, row + vocabulary);
      T sum = 0;
      for (size_t v = 0; v < vocabulary; ++v) sum += std::exp(row[v] - largest);
      log_sum[r] = largest + std::log(sum);
      losses[r] = log_sum[r] - row[targets[r]];
    }
  }

  void cross_entropy_gradient(size_t rows, size_t vocabulary, T* logits, const Token* targets,
                              const T* log_sum, T scale) override {
    for (size_t r = 0; r < rows; ++r) {
      T* row = logits + r * vocabulary;
      for (size_t v = 0; v < vocabulary; ++v) row[v] = scale * std::exp(row[v] - log_sum[r]);
      row[targets[r]] -= scale;
    }
  }

  void embed(size_t rows, size_t context, size_t width, const Token* tokens, const T* table,
             const T* positions, T* y) override {
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < width; ++c)
        y[r * width + c] =
            table[static_cast<size_t>(tokens[r]) * width + c] + positions[(r % context) * width + c];
  }

  void embed_gradient(size_t rows, size_t context, size_t width, const Token* tokens, const T* dy, T* dtable,
                      T* dpositions) override {
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < width; ++c) {
        dtable[static_cast<size_t>(tokens[r]) * width + c] += dy[r * width + c];
        dpositions[(r % context) * width + c] += dy[r * width + c];
      }
  }

  void add(size_t count, const T* a, const T* b, T* sum) override {
    for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
  }

  double sum_of_squares(size_t count, const T* x) override {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum;
  }

  void adamw(size_t count, const AdamWStep& step, const T* gradient, T* weight, T* mean, T* square) override {
    for (size_t i = 0; i < count; ++i) {
      const T g = gradient[i] * T(step.gradient_scale);
      mean[i] = T(step.beta1) * mean[i] + T(1 - step.beta1) * g;
      square[i] = T(step.beta2) * square[i] + T(1 - step.beta2) * g * g;
      const T direction =
          (mean[i] / T(step.correction1)) / (std::sqrt(square[i] / T(step.correction2)) + T(step.epsilon));
      weight[i] -= T(step.rate) * (direction + T(step.weight_decay) * weight[i]);
    }
  }

 private:
  static constexpr double kRootTwoOverPi = 0.79788456080286535588;
  static constexpr double kCubic = 0.044715;
  static T inner(T x) { return T(kRootTwoOverPi) * (x + T(kCubic) * x * x * x); }

  template <class Body>
  static void for_each_head(const AttentionShape& s, Body body) {
    for (size_t b = 0; b < s.sequences; ++b)
      for (size_t h = 0; h < s.heads; ++h) body(b * s.context, h * s.head_width(), b * s.heads + h);
  }

  // p[0..i] = softmax of query i's scaled scores; returns the logarithm of the sum of their exponentials.
  static T probabilities(const AttentionShape& s, const T* qkv, size_t first_row, size_t column, size_t i,
                         const T* q, std::vector<T>& p) {
    const T scale = T(1) / std::sqrt(T(s.head_width()));
    for (size_t j = 0; j <= i; ++j) {
      const T* k = qkv + (first_row + j) * 3 * s.width + s.width + column;
      p[j] = 0;
      for (size_t c = 0; c < s.head_width(); ++c) p[j] += q[c] * k[c] * scale;
    }
    const auto end = p.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const T largest = *std::max_element(p.begin(), end);
    T sum = 0;
    for (auto it = p.begin(); it != end; ++it) sum += * it = std::exp(*it - largest);
    for (auto it = p.begin(); it != end; ++it) *it /= sum;
    return largest + std::log(sum);
  }
};

}  // namespace

std::unique_ptr<Kernels<float>> make_reference_kernels_float() {
  return std::make_unique<ReferenceKernels<float>>();
}
std::unique_ptr<Kernels<double>> make_reference_kernels_double() {
  return std::make_unique<ReferenceKernels<double>>();
}

}  // namespace megascale::trainer
