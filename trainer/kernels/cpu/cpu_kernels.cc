// float32 kernels for the CPU: oneDNN's sgemm, and the vector loops over ranges shared out to OpenMP threads.
//
// Which thread does what depends on the shapes and the number of threads alone, so a run repeated with as
// many threads gives the same bits.
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

#include "trainer/kernels/cpu/vector_loops.h"
#include "trainer/kernels/kernels.h"

namespace megascale::trainer {
namespace {

constexpr size_t kTile = 64;  // rows of queries worked on at once: a tile of scores stays in the L1/L2 cache
constexpr size_t kPerThread = 16384;  // elements below which sharing out costs more than it saves

void gemm(char ta, char tb, size_t m, size_t n, size_t k, float alpha, const float* a, size_t lda,
          const float* b, size_t ldb, float beta, float* c, size_t ldc) {
  auto d = [](size_t value) { return static_cast<dnnl_dim_t>(value); };
  const dnnl_status_t status =
      dnnl_sgemm(ta, tb, d(m), d(n), d(k), alpha, a, d(lda), b, d(ldb), beta, c, d(ldc));
  if (status != dnnl_success)
    throw std::runtime_error("oneDNN refused a matrix product of " + std::to_string(m) + " x " +
                             std::to_string(n) + " x " + std::to_string(k) + " (status " +
                             std::to_string(status) + ")");
}

class CpuKernels : public Kernels<float> {
 public:
  explicit CpuKernels(int threads) : threads_(std::max(1, threads)), loops_(vector_loops()) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads_);
    scratch_.resize(static_cast<size_t>(threads_));
  }

  std::string name() const override {
    return std::string("cpu (oneDNN sgemm, ") + loops_.name + " loops, " + std::to_string(threads_) +
           (threads_ == 1 ? " thread)" : " threads)");
  }

  void linear(LinearShape s, const float* x, const float* w, const float* bias, float* y) override {
    if (bias)
      share(s.rows, s.out, [&](size_t r, size_t n) { loops_.fill_rows(n, s.out, bias, y + r * s.out); });
    gemm('N', 'T', s.rows, s.out, s.in, 1, x, s.in, w, s.in, bias ? 1.0F : 0.0F, y, s.out);
  }

  void linear_input_gradient(LinearShape s, const float* dy, const float* w, float* dx) override {
    gemm('N', 'N', s.rows, s.in, s.out, 1, dy, s.out, w, s.in, 0, dx, s.in);
  }

  void linear_weight_gradient(LinearShape s, const float* dy, const float* x, float* dw,
                              float* dbias) override {
    gemm('T', 'N', s.out, s.in, s.rows, 1, dy, s.out, x, s.in, 1, dw, s.in);
    if (dbias) loops_.sum_rows(s.rows, s.out, dy, dbias);
  }

  void layer_norm(size_t rows, size_t width, const float* x, const float* gain, const float* bias, float* y,
                  float* mean, float* inverse_deviation) override {
    share(rows, width, [&](size_t r, size_t n) {
      loops_.layer_norm(n, width, x + r * width, gain, bias, y + r * width, mean + r, inverse_deviation + r);
    });
  }

  void layer_norm_gradient(size_t rows, size_t width, const float* dy, const float* x, const float* gain,
                           const float* mean, const float* inverse_deviation, float* dx, float* dgain,
                           float* dbias) override {
    share(rows, width, [&](size_t r, size_t n) {
      loops_.layer_norm_input_gradient(n, width, dy + r * width, x + r * width, gain, mean + r,
                                       inverse_deviation + r, dx + r * width);
    });
    loops_.layer_norm_weight_gradient(rows, width, dy, x, mean, inverse_deviation, dgain, dbias);
  }

  void gelu(size_t count, const float* x, float* y) override {
    share(count, 1, [&](size_t i, size_t n) { loops_.gelu(n, x + i, y + i); });
  }

  void gelu_gradient(size_t count, const float* dy, const float* x, float* dx) override {
    share(count, 1, [&](size_t i, size_t n) { loops_.gelu_gradient(n, dy + i, x + i, dx + i); });
  }

  void attention(AttentionShape s, const float* qkv, float* out, float* log_sum) override {
    for_each_head(s, [&](size_t row, size_t column, size_t index, std::vector<float>& scratch) {
      attend(s, qkv + row * 3 * s.width + column, out + row * s.width + column, log_sum + index * s.context,
             scratch);
    });
  }

  void attention_gradient(AttentionShape s, const float* qkv, const float* out, const float* log_sum,
                          const float* dout, float* dqkv) override {
    std::memset(dqkv, 0, s.rows() * 3 * s.width * sizeof(float));
    for_each_head(s, [&](size_t row, size_t column, size_t index, std::vector<float>& scratch) {
      const size_t narrow = row * s.width + column, wide = row * 3 * s.width + column;
      attend_gradient(s, qkv + wide, out + narrow, log_sum + index * s.context, dout + narrow, dqkv + wide,
                      scratch);
    });
  }

  void cross_entropy(size_t rows, size_t vocabulary, const float* logits, const Token* targets, float* losses,
                     float* log_sum) override {
    share(rows, vocabulary, [&](size_t r, size_t n) {
      loops_.cross_entropy(n, vocabulary, logits + r * vocabulary, targets + r, losses + r, log_sum + r);
    });
  }

  void cross_entropy_gradient(size_t rows, size_t vocabulary, float* logits, const Token* targets,
                              const float* log_sum, float scale) override {
    share(rows, vocabulary, [&](size_t r, size_t n) {
      loops_.cross_entropy_gradient(n, vocabulary, logits + r * vocabulary, targets + r, log_sum + r, scale);
    });
  }

  void embed(size_t rows, size_t context, size_t width, const Token* tokens, const float* table,
             const float* positions, float* y) override {
    for (size_t r = 0; r < rows; ++r)
      loops_.add(width, table + static_cast<size_t>(tokens[r]) * width, positions + (r % context) * width,
                 y + r * width);
  }

  void embed_gradient(size_t rows, size_t context, size_t width, const Token* tokens, const float* dy,
                      float* dtable, float* dpositions) override {
    for (size_t r = 0; r < rows; ++r) {
      loops_.sum_rows(1, width, dy + r * width, dtable + static_cast<size_t>(tokens[r]) * width);
      loops_.sum_rows(1, width, dy + r * width, dpositions + (r % context) * width);
    }
  }

  void add(size_t count, const float* a, const float* b, float* sum) override {
    share(count, 1, [&](size_t i, size_t n) { loops_.add(n, a + i, b + i, sum + i); });
  }

  double sum_of_squares(size_t count, const float* x) override { return loops_.sum_of_squares(count, x); }

  void adamw(size_t count, const AdamWStep& step, const float* gradient, float* weight, float* mean,
             float* square) override {
    auto f = [](double value) { return static_cast<float>(value); };
    const AdamWConstants constants = {f(step.gradient_scale),  f(step.beta1),     f(1 - step.beta1),
                                      f(step.beta2),           f(1 - step.beta2), f(1 / step.correction1),
                                      f(1 / step.correction2), f(step.epsilon),   f(step.rate),
                                      f(step.weight_decay)};
    share(count, 1, [&](size_t i, size_t n) {
      loops_.adamw(n, constants, gradient + i, weight + i, mean + i, square + i);
    });
  }

 private:
  // Calls body(first, count) on every thread for its part of `items`, or once when they are few.
  template <class Body>
  void share(size_t items, size_t elements_per_item, Body body) const {
    const size_t wanted = items * elements_per_item / kPerThread;
    const int threads = static_cast<int>(std::min(wanted, static_cast<size_t>(threads_)));
    if (threads <= 1) return body(size_t{0}, items);
#pragma omp parallel num_threads(threads)
    {
      const size_t n = static_cast<size_t>(omp_get_num_threads()),
                   me = static_cast<size_t>(omp_get_thread_num());
      const size_t first = items * me / n, last = items * (me + 1) / n;
      if (last > first) body(first, last - first);
    }
  }

  // Calls body(first row, first column, head's index, scratch) for every head of every sequence.
  template <class Body>
  void for_each_head(const AttentionShape& s, Body body) {
    const long heads = static_cast<long>(s.sequences * s.heads);
    for (auto& scratch : scratch_) scratch.resize(std::max(scratch.size(), 2 * kTile * s.context));
    std::exception_ptr failure;  // an exception must not leave the parallel region
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (long i = 0; i < heads; ++i) {
      const size_t index = static_cast<size_t>(i);
      try {
        body(index / s.heads * s.context, index % s.heads * s.head_width(), index,
             scratch_[static_cast<size_t>(omp_get_thread_num())]);
      } catch (...) {
#pragma omp critical
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  // One head: a tile of queries at a time against the keys that any of them sees.
  void attend(const AttentionShape& s, const float* q, float* out, float* log_sum,
              std::vector<float>& scratch) {
    const size_t d = s.head_width(), stride = 3 * s.width;
    const float *k = q + s.width, *v = q + 2 * s.width;
    const float scale = 1.0F / std::sqrt(static_cast<float>(d));
    float* p = scratch.data();
    for (size_t first = 0; first < s.context; first += kTile) {
      const size_t rows = std::min(kTile, s.context - first), keys = first + rows;
      gemm('N', 'T', rows, keys, d, scale, q + first * stride, stride, k, stride, 0, p, keys);
      loops_.causal_softmax(rows, keys, first + 1, p, log_sum + first);
      gemm('N', 'N', rows, d, keys, 1, p, keys, v, stride, 0, out + first * s.width, s.width);
    }
  }

  // The gradient needs the probabilities again: from the scores and log_sum, as FlashAttention-2 does
  // (Dao, arXiv:2307.08691, algorithm 2).
  void attend_gradient(const AttentionShape& s, const float* q, const float* out, const float* log_sum,
                       const float* dout, float* dq, std::vector<float>& scratch) {
    const size_t d = s.head_width(), stride = 3 * s.width;
    const float *k = q + s.width, *v = q + 2 * s.width;
    float *dk = dq + s.width, *dv = dq + 2 * s.width;
    const float scale = 1.0F / std::sqrt(static_cast<float>(d));
    float *p = scratch.data(), *ds = p + kTile * s.context;
    for (size_t first = 0; first < s.context; first += kTile) {
      const size_t rows = std::min(kTile, s.context - first), keys = first + rows;
      const float *tile_q = q + first * stride, *tile_dout = dout + first * s.width;
      gemm('N', 'T', rows, keys, d, scale, tile_q, stride, k, stride, 0, p, keys);
      loops_.causal_probabilities(rows, keys, first + 1, p, log_sum + first);
      gemm('N', 'T', rows, keys, d, 1, tile_dout, s.width, v, stride, 0, ds, keys);
      gemm('T', 'N', keys, d, rows, 1, p, keys, tile_dout, s.width, 1, dv, stride);
      loops_.softmax_gradient(rows, keys, first + 1, p, ds, out + first * s.width, tile_dout, d, s.width,
                              scale);
      gemm('N', 'N', rows, d, keys, 1, ds, keys, k, stride, 0, dq + first * stride, stride);
      gemm('T', 'N', keys, d, rows, 1, ds, keys, tile_q, stride, 1, dk, stride);
    }
  }

  int threads_;
  const VectorLoops& loops_;
  std::vector<std::vector<float>> scratch_;  // one a thread
};

}  // namespace

std::unique_ptr<Kernels<float>> make_cpu_kernels(int threads) {
  return std::make_unique<CpuKernels>(threads);
}

}  // namespace megascale::trainer
