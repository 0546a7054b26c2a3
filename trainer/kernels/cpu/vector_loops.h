// The loops beside the GEMMs, compiled once for each instruction set and chosen when the program starts.
//
// Each function works on a range, on the calling thread. The arithmetic of kernels.h applies.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace megascale::trainer {

// adamw's constants, in the order in which the loop uses them.
struct AdamWConstants {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, inverse_correction1,
      inverse_correction2, epsilon, rate, decay;
};

struct VectorLoops {
  const char* name;
  void (*fill_rows)(size_t rows, size_t width, const float* bias, float* y);   // y[row] = bias
  void (*sum_rows)(size_t rows, size_t width, const float* dy, float* dbias);  // dbias += sum of rows
  void (*layer_norm)(size_t rows, size_t width, const float* x, const float* gain, const float* bias,
                     float* y, float* mean, float* inverse_deviation);
  void (*layer_norm_input_gradient)(size_t rows, size_t width, const float* dy, const float* x,
                                    const float* gain, const float* mean, const float* inverse_deviation,
                                    float* dx);
  void (*layer_norm_weight_gradient)(size_t rows, size_t width, const float* dy, const float* x,
                                     const float* mean, const float* inverse_deviation, float* dgain,
                                     float* dbias);
  void (*gelu)(size_t count, const float* x, float* y);
  void (*gelu_gradient)(size_t count, const float* dy, const float* x, float* dx);
  // A tile of scores, row i of which sees valid + i keys: softmax in place, zeros beyond; log_sum a row.
  void (*causal_softmax)(size_t rows, size_t keys, size_t valid, float* scores, float* log_sum);
  // The same probabilities again from scores and log_sum.
  void (*causal_probabilities)(size_t rows, size_t keys, size_t valid, float* scores, const float* log_sum);
  // ds = p * (dp - dot(out, dout)) * scale, over dp. out and dout have stride `stride` and head_width
  // columns.
  void (*softmax_gradient)(size_t rows, size_t keys, size_t valid, const float* p, float* dp,
                           const float* out, const float* dout, size_t head_width, size_t stride,
                           float scale);
  void (*cross_entropy)(size_t rows, size_t vocabulary, const float* logits, const int32_t* targets,
                        float* losses, float* log_sum);
  void (*cross_entropy_gradient)(size_t rows, size_t vocabulary, float* logits, const int32_t* targets,
                                 const float* log_sum, float scale);
  void (*add)(size_t count, const float* a, const float* b, float* sum);
  double (*sum_of_squares)(size_t count, const float* x);
  void (*adamw)(size_t count, const AdamWConstants& constants, const float* gradient, float* weight,
                float* mean, float* square);
};

const VectorLoops& vector_loops_baseline();
#ifdef MEGASCALE_X86_LOOPS
const VectorLoops& vector_loops_avx2();
const VectorLoops& vector_loops_avx512();
#endif

// The best of those that this CPU runs.
const VectorLoops& vector_loops();

}  // namespace megascale::trainer
