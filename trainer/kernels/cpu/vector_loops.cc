// Compiled several times, each with MEGASCALE_LOOPS naming the instruction set of its flags.
//
// Nothing here may include a header that emits inline functions: the linker would keep one copy of each,
// perhaps the one that an older CPU cannot run. Hence builtins and plain loops.
#include "trainer/kernels/cpu/vector_loops.h"

#define MEGASCALE_JOIN_(a, b) a##b
#define MEGASCALE_JOIN(a, b) MEGASCALE_JOIN_(a, b)
#define MEGASCALE_TEXT_(a) #a
#define MEGASCALE_TEXT(a) MEGASCALE_TEXT_(a)

namespace megascale::trainer {
namespace {

constexpr float kNormEpsilon = 1e-5F;
constexpr float kRootTwoOverPi = 0.79788456080286535588F;
constexpr float kCubic = 0.044715F;

inline float from_bits(int32_t bits) { return __builtin_bit_cast(float, bits); }
inline int32_t to_bits(float value) { return __builtin_bit_cast(int32_t, value); }

// e^x to 2 units in the last place: x = n ln 2 + r, a polynomial (Cephes' expf) for e^r, and n put into the
// exponent. Clamped where float would overflow or turn denormal; NaN stays NaN.
inline float exponential(float x) {
  const float clamped_low = x < -87.0F ? -87.0F : x;
  const float clamped = clamped_low > 88.0F ? 88.0F : clamped_low;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = clamped * 1.44269504088896341F + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const uint32_t exponent = static_cast<uint32_t>(to_bits(shifted)) << 23;  // wraps: only the low bits matter
  return p * from_bits(static_cast<int32_t>(exponent + 0x3F800000U));
}

void fill_rows(size_t rows, size_t width, const float* __restrict bias, float* __restrict y) {
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < width; ++i) y[r * width + i] = bias[i];
}

void sum_rows(size_t rows, size_t width, const float* __restrict dy, float* __restrict dbias) {
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < width; ++i) dbias[i] += dy[r * width + i];
}

void layer_norm(size_t rows, size_t width, const float* __restrict x, const float* __restrict gain,
                const float* __restrict bias, float* __restrict y, float* __restrict mean,
                float* __restrict inverse_deviation) {
  const float over_width = 1.0F / static_cast<float>(width);
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < width; ++i) sum += row[i];
    const float m = sum * over_width;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (size_t i = 0; i < width; ++i) squares += (row[i] - m) * (row[i] - m);
    const float inverse = 1.0F / __builtin_sqrtf(squares * over_width + kNormEpsilon);
    float* out = y + r * width;
    for (size_t i = 0; i < width; ++i) out[i] = (row[i] - m) * inverse * gain[i] + bias[i];
    mean[r] = m;
    inverse_deviation[r] = inverse;
  }
}

void layer_norm_input_gradient(size_t rows, size_t width, const float* __restrict dy,
                               const float* __restrict x, const float* __restrict gain,
                               const float* __restrict mean, const float* __restrict inverse_deviation,
                               float* __restrict dx) {
  const float over_width = 1.0F / static_cast<float>(width);
  for (size_t r = 0; r < rows; ++r) {
    const float *d = dy + r * width, *row = x + r * width;
    const float m = mean[r], inverse = inverse_deviation[r];
    float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (size_t i = 0; i < width; ++i) {
      sum += d[i] * gain[i];
      dot += d[i] * gain[i] * (row[i] - m);
    }
    const float mean_part = sum * over_width, slope = dot * over_width * inverse * inverse;
    float* out = dx + r * width;
    for (size_t i = 0; i < width; ++i)
      out[i] += inverse * (d[i] * gain[i] - mean_part - (row[i] - m) * slope);
  }
}

void layer_norm_weight_gradient(size_t rows, size_t width, const float* __restrict dy,
                                const float* __restrict x, const float* __restrict mean,
                                const float* __restrict inverse_deviation, float* __restrict dgain,
                                float* __restrict dbias) {
  for (size_t r = 0; r < rows; ++r) {
    const float *d = dy + r * width, *row = x + r * width;
    const float m = mean[r], inverse = inverse_deviation[r];
    for (size_t i = 0; i < width; ++i) {
      dgain[i] += d[i] * (row[i] - m) * inverse;
      dbias[i] += d[i];
    }
  }
}

// 0.5 (1 + tanh u) is 1 / (1 + e^-2u): one exponential, no cancellation.
inline float gate(float x) {
  const float u = kRootTwoOverPi * (x + kCubic * x * x * x);
  return 1.0F / (1.0F + exponential(-2.0F * u));
}

void gelu(size_t count, const float* __restrict x, float* __restrict y) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] * gate(x[i]);
}

// dy and dx may be the same memory, element for element.
void gelu_gradient(size_t count, const float* dy, const float* __restrict x, float* dx) {
#pragma omp simd
  for (size_t i = 0; i < count; ++i) {
    const float g = gate(x[i]);
    const float slope = 2.0F * kRootTwoOverPi * (1.0F + 3.0F * kCubic * x[i] * x[i]);
    dx[i] = dy[i] * (g + x[i] * g * (1.0F - g) * slope);
  }
}

inline float largest(size_t count, const float* x) {
  float most = x[0];
#pragma omp simd reduction(max : most)
  for (size_t i = 1; i < count; ++i) most = most < x[i] ? x[i] : most;
  return most;
}

inline size_t visible(size_t valid, size_t row, size_t keys) {
  return valid + row < keys ? valid + row : keys;
}

void causal_softmax(size_t rows, size_t keys, size_t valid, float* __restrict scores,
                    float* __restrict log_sum) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = scores + r * keys;
    const size_t count = visible(valid, r, keys);
    const float most = largest(count, row);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < count; ++j) {
      row[j] = exponential(row[j] - most);
      sum += row[j];
    }
    const float inverse = 1.0F / sum;
    for (size_t j = 0; j < count; ++j) row[j] *= inverse;
    for (size_t j = count; j < keys; ++j) row[j] = 0;
    log_sum[r] = most + __builtin_logf(sum);
  }
}

void causal_probabilities(size_t rows, size_t keys, size_t valid, float* __restrict scores,
                          const float* __restrict log_sum) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = scores + r * keys;
    const size_t count = visible(valid, r, keys);
    for (size_t j = 0; j < count; ++j) row[j] = exponential(row[j] - log_sum[r]);
    for (size_t j = count; j < keys; ++j) row[j] = 0;
  }
}

void softmax_gradient(size_t rows, size_t keys, size_t valid, const float* __restrict p, float* __restrict dp,
                      const float* __restrict out, const float* __restrict dout, size_t head_width,
                      size_t stride, float scale) {
  for (size_t r = 0; r < rows; ++r) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (size_t c = 0; c < head_width; ++c) dot += out[r * stride + c] * dout[r * stride + c];
    const float* pr = p + r * keys;
    float* dr = dp + r * keys;
    const size_t count = visible(valid, r, keys);
    for (size_t j = 0; j < count; ++j) dr[j] = pr[j] * (dr[j] - dot) * scale;
    for (size_t j = count; j < keys; ++j) dr[j] = 0;
  }
}

void cross_entropy(size_t rows, size_t vocabulary, const float* __restrict logits,
                   const int32_t* __restrict targets, float* __restrict losses, float* __restrict log_sum) {
  for (size_t r = 0; r < rows; ++r) {
    const float* row = logits + r * vocabulary;
    const float most = largest(vocabulary, row);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < vocabulary; ++v) sum += exponential(row[v] - most);
    log_sum[r] = most + __builtin_logf(sum);
    losses[r] = log_sum[r] - row[targets[r]];
  }
}

void cross_entropy_gradient(size_t rows, size_t vocabulary, float* __restrict logits,
                            const int32_t* __restrict targets, const float* __restrict log_sum, float scale) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = logits + r * vocabulary;
    for (size_t v = 0; v < vocabulary; ++v) row[v] = scale * exponential(row[v] - log_sum[r]);
    row[targets[r]] -= scale;
  }
}

void add(size_t count, const float* a, const float* b, float* sum) {
#pragma omp simd
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

double sum_of_squares(size_t count, const float* __restrict x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void adamw(size_t count, const AdamWConstants& constants, const float* __restrict gradient,
           float* __restrict weight, float* __restrict mean, float* __restrict square) {
  const AdamWConstants c = constants;
  for (size_t i = 0; i < count; ++i) {
    const float g = gradient[i] * c.gradient_scale;
    const float m = c.beta1 * mean[i] + c.one_minus_beta1 * g;
    const float s = c.beta2 * square[i] + c.one_minus_beta2 * g * g;
    const float direction =
        m * c.inverse_correction1 / (__builtin_sqrtf(s * c.inverse_correction2) + c.epsilon);
    mean[i] = m;
    square[i] = s;
    weight[i] -= c.rate * (direction + c.decay * weight[i]);
  }
}

}  // namespace

const VectorLoops& MEGASCALE_JOIN(vector_loops_, MEGASCALE_LOOPS)() {
  static constexpr VectorLoops kLoops = {MEGASCALE_TEXT(MEGASCALE_LOOPS),
                                         fill_rows,
                                         sum_rows,
                                         layer_norm,
                                         layer_norm_input_gradient,
                                         layer_norm_weight_gradient,
                                         gelu,
                                         gelu_gradient,
                                         causal_softmax,
                                         causal_probabilities,
                                         softmax_gradient,
                                         cross_entropy,
                                         cross_entropy_gradient,
                                         add,
                                         sum_of_squares,
                                         adamw};
  return kLoops;
}

}  // namespace megascale::trainer
