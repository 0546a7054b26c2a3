// The fast kernels against the reference, and the vector loops of every instruction set this CPU has.
#include "trainer/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "trainer/kernels/cpu/vector_loops.h"
#include "trainer/random/counter.h"

namespace megascale::trainer {
namespace {

using Numbers = std::vector<float>;

Numbers random_numbers(size_t count, uint64_t stream, double deviation = 1) {
  Numbers numbers(count);
  for (size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<float>(deviation * counter_normal(7, stream, i));
  return numbers;
}

// Errors of sums grow with what is summed, so the measure is relative to the largest element.
void expect_close(const Numbers& got, const Numbers& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << "element " << i;
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])));
  }
  EXPECT_LE(worst, tolerance * largest);
  EXPECT_GT(largest, 0);
}

// One, and more threads than a machine of the smallest kind has cores: ranges are cut, results must not
// change.
class FastKernels : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Kernels<float>> fast = make_cpu_kernels(GetParam());
  std::unique_ptr<Kernels<float>> plain = make_reference_kernels_float();

  // Runs `body` with both and compares the vectors it returns.
  void compare(const std::function<std::vector<Numbers>(Kernels<float>&)>& body, double tolerance = 3e-6) {
    const auto got = body(*fast), wanted = body(*plain), again = body(*fast);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE("result " + std::to_string(i));
      expect_close(got[i], wanted[i], tolerance);
      EXPECT_EQ(got[i], again[i]) << "a repetition gave other bits";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Threads, FastKernels, testing::Values(1, 3));

TEST_P(FastKernels, Linear) {
  for (const LinearShape s : {LinearShape{1, 1, 1}, LinearShape{37, 19, 53}, LinearShape{256, 96, 384}})
    compare([&](Kernels<float>& k) {
      const Numbers x = random_numbers(s.rows * s.in, 1), w = random_numbers(s.out * s.in, 2),
                    b = random_numbers(s.out, 3);
      Numbers y(s.rows * s.out), bare(s.rows * s.out);
      k.linear(s, x.data(), w.data(), b.data(), y.data());
      k.linear(s, x.data(), w.data(), nullptr, bare.data());
      return std::vector{y, bare};
    });
}

TEST_P(FastKernels, LinearGradientsAddToWeights) {
  const LinearShape s{256, 48, 96};
  compare([&](Kernels<float>& k) {
    const Numbers x = random_numbers(s.rows * s.in, 1), w = random_numbers(s.out * s.in, 2),
                  dy = random_numbers(s.rows * s.out, 3);
    Numbers dx(s.rows * s.in), dw = random_numbers(s.out * s.in, 4, 100), db = random_numbers(s.out, 5, 100);
    k.linear_input_gradient(s, dy.data(), w.data(), dx.data());
    k.linear_weight_gradient(s, dy.data(), x.data(), dw.data(), db.data());
    return std::vector{dx, dw, db};
  });
}

TEST_P(FastKernels, LayerNorm) {
  for (const auto& [rows, width] : {std::pair<size_t, size_t>{1, 3}, {9, 37}, {700, 128}})
    compare([&, rows = rows, width = width](Kernels<float>& k) {
      const Numbers x = random_numbers(rows * width, 1), gain = random_numbers(width, 2),
                    bias = random_numbers(width, 3), dy = random_numbers(rows * width, 4);
      Numbers y(rows * width), mean(rows), inverse(rows), dx = random_numbers(rows * width, 5), dgain(width),
                                                          dbias(width);
      k.layer_norm(rows, width, x.data(), gain.data(), bias.data(), y.data(), mean.data(), inverse.data());
      k.layer_norm_gradient(rows, width, dy.data(), x.data(), gain.data(), mean.data(), inverse.data(),
                            dx.data(), dgain.data(), dbias.data());
      return std::vector{y, mean, inverse, dx, dgain, dbias};
    });
}

TEST_P(FastKernels, Gelu) {
  compare([&](Kernels<float>& k) {
    Numbers x = random_numbers(70001, 1, 3), y(x.size()), dx = random_numbers(x.size(), 2);
    x[0] = 60, x[1] = -60, x[2] = 0;  // both tails
    k.gelu(x.size(), x.data(), y.data());
    k.gelu_gradient(x.size(), dx.data(), x.data(), dx.data());
    return std::vector{y, dx};
  });
}

TEST_P(FastKernels, CausalAttention) {
  // Contexts below, at, just above and well above a tile of 64 queries.
  for (const AttentionShape s :
       {AttentionShape{1, 1, 1, 4}, AttentionShape{2, 7, 3, 24}, AttentionShape{2, 64, 2, 16},
        AttentionShape{1, 65, 2, 16}, AttentionShape{3, 150, 2, 64}})
    compare([&](Kernels<float>& k) {
      const Numbers qkv = random_numbers(s.rows() * 3 * s.width, 1),
                    dout = random_numbers(s.rows() * s.width, 2);
      Numbers out(s.rows() * s.width), log_sum(s.rows() * s.heads), dqkv = random_numbers(qkv.size(), 3);
      k.attention(s, qkv.data(), out.data(), log_sum.data());
      k.attention_gradient(s, qkv.data(), out.data(), log_sum.data(), dout.data(), dqkv.data());
      return std::vector{out, log_sum, dqkv};
    });
}

TEST_P(FastKernels, AttentionSurvivesLargeScores) {
  const AttentionShape s{1, 70, 1, 8};
  compare(
      [&](Kernels<float>& k) {
        const Numbers qkv =
            random_numbers(s.rows() * 3 * s.width, 1, 12);  // scores of hundreds: e^x alone overflows
        Numbers out(s.rows() * s.width), log_sum(s.rows());
        k.attention(s, qkv.data(), out.data(), log_sum.data());
        return std::vector{out, log_sum};
      },
      1e-4);  // an error of the score's last bit is an error of 1e-5 in its exponential
}

TEST_P(FastKernels, CrossEntropy) {
  const size_t rows = 300, vocabulary = 256;
  std::vector<Token> targets(rows);
  for (size_t r = 0; r < rows; ++r) targets[r] = static_cast<Token>(r * 7 % vocabulary);
  compare(
      [&](Kernels<float>& k) {
        Numbers logits = random_numbers(rows * vocabulary, 1, 5), losses(rows), log_sum(rows);
        logits[0] = 500;  // one that is sure of itself
        k.cross_entropy(rows, vocabulary, logits.data(), targets.data(), losses.data(), log_sum.data());
        k.cross_entropy_gradient(rows, vocabulary, logits.data(), targets.data(), log_sum.data(), 0.125F);
        return std::vector{losses, log_sum, logits};
      },
      1e-5);
}

TEST_P(FastKernels, Embedding) {
  const size_t rows = 60, context = 20, width = 33, vocabulary = 11;
  std::vector<Token> tokens(rows);
  for (size_t r = 0; r < rows; ++r) tokens[r] = static_cast<Token>(r * 5 % vocabulary);
  compare([&](Kernels<float>& k) {
    const Numbers table = random_numbers(vocabulary * width, 1),
                  positions = random_numbers(context * width, 2), dy = random_numbers(rows * width, 3);
    Numbers y(rows * width), dtable(table.size()), dpositions(positions.size());
    k.embed(rows, context, width, tokens.data(), table.data(), positions.data(), y.data());
    k.embed_gradient(rows, context, width, tokens.data(), dy.data(), dtable.data(), dpositions.data());
    return std::vector{y, dtable, dpositions};
  });
}

TEST_P(FastKernels, AddNormAndAdamW) {
  AdamWStep step;
  step.rate = 0.01, step.weight_decay = 0.1, step.gradient_scale = 0.5, step.correction1 = 0.19,
  step.correction2 = 0.002;
  compare([&](Kernels<float>& k) {
    const Numbers a = random_numbers(100003, 1), b = random_numbers(a.size(), 2);
    Numbers sum(a.size()), weight = random_numbers(a.size(), 3), mean = random_numbers(a.size(), 4),
                           square(a.size(), 0.5F);
    k.add(a.size(), a.data(), b.data(), sum.data());
    k.adamw(a.size(), step, a.data(), weight.data(), mean.data(), square.data());
    return std::vector{sum, weight, mean, square,
                       Numbers{static_cast<float>(k.sum_of_squares(a.size(), a.data()))}};
  });
}

TEST_P(FastKernels, NotANumberIsNotHidden) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Numbers logits(256, 0.0F), losses(1), log_sum(1), y(1);
  logits[200] = nan;
  const Token target = 3;
  fast->cross_entropy(1, 256, logits.data(), &target, losses.data(), log_sum.data());
  EXPECT_TRUE(std::isnan(losses[0]));
  fast->gelu(1, &nan, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(VectorLoops, EveryInstructionSetAgreesWithTheBaseline) {
  std::vector<const VectorLoops*> all = {&vector_loops()};
#ifdef MEGASCALE_X86_LOOPS
  if (vector_loops().name == std::string("avx512")) all.push_back(&vector_loops_avx2());
#endif
  const VectorLoops& baseline = vector_loops_baseline();
  const Numbers x = random_numbers(4099, 1, 4);
  Numbers wanted(x.size()), got(x.size());
  baseline.gelu(x.size(), x.data(), wanted.data());
  for (const VectorLoops* loops : all) {
    SCOPED_TRACE(loops->name);
    loops->gelu(x.size(), x.data(), got.data());
    expect_close(got, wanted, 1e-6);
    EXPECT_NEAR(loops->sum_of_squares(x.size(), x.data()), baseline.sum_of_squares(x.size(), x.data()), 1e-7);
  }
}

TEST(VectorLoops, ExponentialIsAccurateOverItsRange) {
  // softmax_gradient and friends reach the exponential only through others; cross entropy's gradient shows it
  // bare: scale * e^(logit - log_sum), apart from the target.
  const size_t count = 4001;
  Numbers logits(count);
  std::vector<float> arguments(count);
  for (size_t i = 0; i < count; ++i) arguments[i] = logits[i] = -86.0F + 0.043F * static_cast<float>(i);
  const float log_sum = 0;
  const int32_t target = 0;
  vector_loops().cross_entropy_gradient(1, count, logits.data(), &target, &log_sum, 1.0F);
  for (size_t i = 1; i < count; ++i) {
    const double wanted = std::exp(static_cast<double>(arguments[i]));
    if (wanted > 1e38) break;
    ASSERT_NEAR(logits[i] / wanted, 1, 3e-7) << "e^" << arguments[i];
  }
}

}  // namespace
}  // namespace megascale::trainer
