// The model: every gradient of a tiny one against finite differences in float64, and what the shape promises.
#include "trainer/model/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trainer/model/initial_weights.h"
#include "trainer/random/counter.h"

namespace megascale::trainer {
namespace {

struct Tokens {
  std::vector<Token> inputs, targets;
  Batch batch(const ModelShape& shape) const { return {inputs, targets, inputs.size() / shape.context}; }
};

Tokens random_tokens(const ModelShape& shape, size_t sequences) {
  Tokens tokens;
  for (size_t i = 0; i < sequences * shape.context; ++i) {
    tokens.inputs.push_back(static_cast<Token>(counter_random(3, 1, i) % shape.vocabulary));
    tokens.targets.push_back(static_cast<Token>(counter_random(3, 2, i) % shape.vocabulary));
  }
  return tokens;
}

// Weights large enough that every non-linearity bends, gains and biases away from their special values.
template <class T>
void rough_weights(Gpt<T>* model) {
  auto weights = model->parameters();
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<T>(0.4 * counter_normal(11, 0, i));
  for (const Tensor& tensor : model->tensors())
    if (tensor.start == Start::one)
      for (size_t i = 0; i < tensor.count(); ++i) weights[tensor.offset + i] += T(1);
}

class Gradients : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Head, Gradients, testing::Bool(),
                         [](const auto& tied) { return tied.param ? "Tied" : "Untied"; });

TEST_P(Gradients, OfEveryParameterEqualFiniteDifferences) {
  const ModelShape shape{
      .layers = 2, .heads = 2, .width = 8, .context = 5, .vocabulary = 11, .tied = GetParam()};
  auto kernels = make_reference_kernels_double();
  Gpt<double> model(shape, *kernels, 2);
  rough_weights(&model);
  const Tokens tokens = random_tokens(shape, 2);
  const Batch batch = tokens.batch(shape);
  const double scale = 1.0 / 10;
  model.zero_gradients();
  model.forward(batch);
  model.backward(batch, scale);
  const std::vector<double> gradients(model.gradients().begin(), model.gradients().end());

  // The five-point rule: its error falls with h^4, so h can be large enough for rounding not to matter.
  const double h = 1e-3;
  for (const Tensor& tensor : model.tensors())
    for (size_t i = tensor.offset; i < tensor.offset + tensor.count(); ++i) {
      double& weight = model.parameters()[i];
      const double kept = weight;
      auto loss = [&](double offset) {
        weight = kept + offset;
        return scale * model.forward(batch);
      };
      const double slope = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h);
      weight = kept;
      // 1e-10: what rounding in a loss of 3 leaves of a difference over 1e-3; a key's bias has a gradient of
      // 0.
      const double allowed = 1e-5 * std::max(std::abs(slope), std::abs(gradients[i])) + 1e-10;
      ASSERT_NEAR(gradients[i], slope, allowed) << tensor.name << " element " << i - tensor.offset;
    }
}

TEST(Gpt, FloatOnFastKernelsAgreesWithDoubleOnReference) {
  const ModelShape shape{.layers = 2, .heads = 2, .width = 32, .context = 70, .vocabulary = 64};
  auto exact_kernels = make_reference_kernels_double();
  auto fast_kernels = make_cpu_kernels(1);
  Gpt<double> exact(shape, *exact_kernels, 2);
  Gpt<float> fast(shape, *fast_kernels, 2);
  initial_weights(exact.tensors(), 5, exact.parameters());
  initial_weights(fast.tensors(), 5, fast.parameters());
  const Tokens tokens = random_tokens(shape, 2);
  const Batch batch = tokens.batch(shape);
  EXPECT_NEAR(fast.forward(batch) / exact.forward(batch), 1, 1e-6);
  fast.backward(batch, 1);
  exact.backward(batch, 1);
  // Per tensor, relative L2, as the reference trainers are compared with float64.
  for (const Tensor& tensor : exact.tensors()) {
    double difference = 0, norm = 0;
    for (size_t i = tensor.offset; i < tensor.offset + tensor.count(); ++i) {
      const double e = exact.gradients()[i], d = static_cast<double>(fast.gradients()[i]) - e;
      difference += d * d;
      norm += e * e;
    }
    EXPECT_LE(std::sqrt(difference), 5e-6 * std::sqrt(norm) + 1e-9) << tensor.name;
  }
}

TEST(Gpt, GradientsOfTwoPassesAdd) {
  const ModelShape shape{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 7};
  auto kernels = make_reference_kernels_double();
  Gpt<double> model(shape, *kernels, 2);
  rough_weights(&model);
  const Tokens both = random_tokens(shape, 2);
  model.forward(both.batch(shape));
  model.backward(both.batch(shape), 1);
  const std::vector<double> together(model.gradients().begin(), model.gradients().end());
  model.zero_gradients();
  for (size_t half = 0; half < 2; ++half) {
    const Batch batch{std::span(both.inputs).subspan(4 * half, 4),
                      std::span(both.targets).subspan(4 * half, 4), 1};
    model.forward(batch);
    model.backward(batch, 1);
  }
  for (size_t i = 0; i < together.size(); ++i) ASSERT_NEAR(model.gradients()[i], together[i], 1e-12);
}

TEST(Gpt, LaterTokensDoNotReachEarlierPositions) {
  const ModelShape shape{.layers = 2, .heads = 2, .width = 8, .context = 6, .vocabulary = 11};
  auto kernels = make_reference_kernels_double();
  Gpt<double> model(shape, *kernels, 1);
  rough_weights(&model);
  // Only the last input differs, so by how much the sum of losses moves is up to the last position alone.
  Tokens tokens = random_tokens(shape, 1);
  auto losses_with = [&](Token last_input, Token last_target) {
    tokens.inputs.back() = last_input;
    tokens.targets.back() = last_target;
    return model.forward(tokens.batch(shape));
  };
  // For each last input, the losses over all last targets t give softmax at the last position: with the
  // earlier positions' losses L, the sum over t of exp(L - loss(t)) is 1 exactly when L is the same whatever
  // comes last.
  auto earlier = [&](Token last_input) {
    double sum = 0;
    for (Token t = 0; t < 11; ++t) sum += std::exp(-losses_with(last_input, t));
    return -std::log(sum);
  };
  const double first = earlier(0);
  for (Token input = 1; input < 11; ++input) EXPECT_NEAR(earlier(input), first, 1e-12);
  EXPECT_GT(std::abs(losses_with(0, 0) - losses_with(1, 0)), 1e-6);
}

TEST(Gpt, ReadyRunsFromTheEndToTheStartAndIsFinal) {
  const ModelShape shape{.layers = 3, .heads = 1, .width = 8, .context = 4, .vocabulary = 7};
  auto kernels = make_reference_kernels_float();
  Gpt<float> model(shape, *kernels, 1);
  rough_weights(&model);
  const Tokens tokens = random_tokens(shape, 1);
  size_t last = model.parameters().size();
  std::vector<float> seen(last);
  model.forward(tokens.batch(shape));
  model.backward(tokens.batch(shape), 1, [&](size_t offset) {
    ASSERT_LT(offset, last);
    std::copy(model.gradients().begin() + static_cast<long>(offset),
              model.gradients().begin() + static_cast<long>(last), seen.begin() + static_cast<long>(offset));
    last = offset;
  });
  EXPECT_EQ(last, 0U);
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), model.gradients().begin()));
}

TEST(Gpt, RefusesWhatDoesNotFit) {
  const ModelShape shape{.layers = 1, .heads = 1, .width = 4, .context = 2, .vocabulary = 3};
  auto kernels = make_reference_kernels_float();
  Gpt<float> model(shape, *kernels, 1);
  const std::vector<Token> good = {0, 2}, outside = {0, 3}, negative = {-1, 0}, four = {0, 1, 0, 1};
  EXPECT_NO_THROW(model.forward({good, good, 1}));
  EXPECT_THROW(model.forward({outside, good, 1}), std::invalid_argument);
  EXPECT_THROW(model.forward({good, negative, 1}), std::invalid_argument);
  EXPECT_THROW(model.forward({four, four, 2}), std::invalid_argument);
  EXPECT_THROW(model.forward({good, good, 0}), std::invalid_argument);
  EXPECT_THROW(Gpt<float>({.layers = 1, .heads = 3, .width = 4}, *kernels, 1), std::invalid_argument);
}

TEST(Shape, CountsGptTwo) {
  // GPT-2's published 124,439,808 parameters (50,257 tokens, 1,024 positions, 12 layers of 768).
  EXPECT_EQ(parameters_of({.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 50257}),
            124439808U);
  // 6 (12 L C^2 + V C) + 6 L C T by hand: 6 (12*2*64 + 10*8) + 6*2*8*4
  EXPECT_EQ(flops_per_token({.layers = 2, .heads = 1, .width = 8, .context = 4, .vocabulary = 10}), 10080);
}

TEST(Shape, TensorsFillTheFlatVectorWithoutGaps) {
  for (const bool tied : {true, false}) {
    size_t offset = 0;
    for (const Tensor& tensor : tensors_of({.tied = tied})) {
      EXPECT_EQ(tensor.offset, offset) << tensor.name;
      offset += tensor.count();
    }
    EXPECT_EQ(offset, parameters_of({.tied = tied}));
  }
}

TEST(InitialWeights, DependOnTheSeedAndHaveTheirDeviation) {
  const auto tensors = tensors_of({});
  std::vector<double> one(parameters_of({})), same(one.size()), other(one.size());
  initial_weights<double>(tensors, 1, one);
  initial_weights<double>(tensors, 1, same);
  initial_weights<double>(tensors, 2, other);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
  double squares = 0;
  for (size_t i = 0; i < 256 * 128; ++i) squares += one[i] * one[i];
  EXPECT_NEAR(std::sqrt(squares / (256 * 128)), 0.02, 0.0005);
}

}  // namespace
}  // namespace megascale::trainer
