// Whole runs of a small model: it learns, it repeats itself bit for bit, and N ranks follow one.
#include "trainer/loop/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "tests/unit/trainer/parallel/thread_group.h"

namespace megascale::trainer {
namespace {

RunConfig small_run() {
  RunConfig config;
  config.model = {.layers = 2, .heads = 2, .width = 32, .context = 24};
  config.steps = 20;
  config.batch = 8;
  config.rate = 3e-3;
  config.warmup = 4;
  config.bucket_bytes = 8192;
  config.validation_sequences = 8;
  return config;
}

// A text with something to learn: sums, written out.
std::vector<uint8_t> text() {
  std::string sums;
  for (int a = 0; a < 30; ++a)
    for (int b = 0; b < 30; ++b)
      sums += std::to_string(a) + " and " + std::to_string(b) + " are " + std::to_string(a + b) + ".\n";
  return {sums.begin(), sums.end()};
}

struct Curve {
  std::vector<double> losses;
  double validation = 0;
  std::vector<float> weights;
};

Curve run(Training* training, const RunConfig& config) {
  Curve curve;
  for (size_t i = 0; i < config.steps; ++i) curve.losses.push_back(training->step().loss);
  curve.validation = training->validation_loss();
  curve.weights.assign(training->weights().begin(), training->weights().end());
  return curve;
}

Curve run_on(int ranks, const RunConfig& config) {
  const std::vector<uint8_t> tokens = text();
  Curve first;
  std::mutex mutex;
  run_ranks(ranks, [&](std::unique_ptr<Group> group) {
    const int rank = group->rank();
    Training training(config, make_cpu_kernels(1), std::move(group), tokens);
    const Curve curve = run(&training, config);
    const std::lock_guard lock(mutex);
    if (rank == 0) first = curve;
  });
  return first;
}

TEST(Training, Learns) {
  RunConfig config = small_run();
  config.steps = 60;
  const Curve curve = run_on(1, config);
  EXPECT_NEAR(curve.losses.front(), std::log(256.0), 0.3);  // knows nothing yet
  EXPECT_LT(curve.losses.back(), 3);
  EXPECT_LT(curve.validation, 3);
}

TEST(Training, RepeatsItselfBitForBit) {
  for (const int ranks : {1, 3}) {
    RunConfig config = small_run();
    config.batch = 12;
    config.steps = 8;
    const Curve one = run_on(ranks, config), two = run_on(ranks, config);
    EXPECT_EQ(one.losses, two.losses);
    EXPECT_EQ(one.weights, two.weights);
    config.seed = 2;
    EXPECT_NE(run_on(ranks, config).losses, one.losses);
  }
}

// The ranks see the same sequences as one process does, but float32 sums are grouped by rank: each addition
// rounds by up to 2^-24, so a gradient differs by about 1e-6 of its size. AdamW divides each gradient by its
// own size, so the weights' steps differ by as much, and the losses of 20 steps by 5e-8 (measured). A hundred
// times that is allowed, for other CPUs and libraries that group their sums in other ways; gradients that are
// never summed move the losses by more than 1e-3 (a test below shows it).
constexpr double kLayoutTolerance = 5e-6;

TEST(Training, NRanksReachTheLossesOfOne) {
  const RunConfig config = small_run();
  const Curve one = run_on(1, config);
  for (const int ranks : {2, 4}) {
    const Curve many = run_on(ranks, config);
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(many.losses[i], one.losses[i], kLayoutTolerance) << ranks << " ranks, step " << i + 1;
    EXPECT_NEAR(many.validation, one.validation, kLayoutTolerance);
    EXPECT_LT(one.losses.back(), one.losses.front() - 1);
  }
}

TEST(Training, MicroBatchesReachTheLossesOfWholeOnes) {
  RunConfig config = small_run();
  const Curve whole = run_on(2, config);
  config.micro_batch = 2;
  const Curve cut = run_on(2, config);
  for (size_t i = 0; i < whole.losses.size(); ++i)
    EXPECT_NEAR(cut.losses[i], whole.losses[i], kLayoutTolerance);
}

// A group that leaves every rank with its own gradients.
class ForgetfulGroup : public Group {
 public:
  explicit ForgetfulGroup(std::unique_ptr<Group> group) : group_(std::move(group)) {}
  int rank() const override { return group_->rank(); }
  int ranks() const override { return group_->ranks(); }
  std::string network() const override { return "forgetful"; }
  std::unique_ptr<Pending> sum(std::span<float> data) override { return alone_->sum(data); }
  std::unique_ptr<Pending> sum(std::span<double> data) override { return group_->sum(data); }
  std::unique_ptr<Pending> minimum(std::span<uint64_t> data) override { return group_->minimum(data); }

 private:
  std::unique_ptr<Group> group_, alone_ = make_solo_group();
};

TEST(Training, TheToleranceNoticesLostGradients) {
  const RunConfig config = small_run();
  const std::vector<uint8_t> tokens = text();
  const Curve one = run_on(1, config);
  Curve forgetful;
  run_ranks(2, [&](std::unique_ptr<Group> group) {
    const int rank = group->rank();
    Training training(config, make_cpu_kernels(1), std::make_unique<ForgetfulGroup>(std::move(group)),
                      tokens);
    const Curve curve = run(&training, config);
    if (rank == 0) forgetful = curve;
  });
  double worst = 0;
  for (size_t i = 0; i < one.losses.size(); ++i)
    worst = std::max(worst, std::abs(forgetful.losses[i] - one.losses[i]));
  EXPECT_GT(worst, 1e-3);
}

TEST(Training, AllRanksEndWithTheSameWeights) {
  const RunConfig config = small_run();
  const std::vector<uint8_t> tokens = text();
  std::vector<std::vector<float>> weights(4);
  run_ranks(4, [&](std::unique_ptr<Group> group) {
    const auto rank = static_cast<size_t>(group->rank());
    Training training(config, make_cpu_kernels(1), std::move(group), tokens);
    weights[rank] = run(&training, config).weights;
  });
  for (size_t rank = 1; rank < 4; ++rank) EXPECT_EQ(weights[rank], weights[0]) << "rank " << rank;
}

TEST(Training, RefusesRanksThatDisagree) {
  const std::vector<uint8_t> tokens = text();
  auto with = [&](auto change_config, auto change_text) {
    run_ranks(2, [&](std::unique_ptr<Group> group) {
      RunConfig config = small_run();
      std::vector<uint8_t> mine = tokens;
      if (group->rank() == 1) change_config(&config), change_text(&mine);
      Training training(config, make_cpu_kernels(1), std::move(group), mine);
    });
  };
  EXPECT_NO_THROW(with([](RunConfig*) {}, [](auto*) {}));
  EXPECT_THROW(with([](RunConfig* c) { c->seed = 5; }, [](auto*) {}), std::runtime_error);
  EXPECT_THROW(with([](RunConfig*) {}, [](auto* t) { t->at(100) ^= 1; }), std::runtime_error);
}

TEST(Training, StopsWhenTheLossIsNotANumber) {
  RunConfig config = small_run();
  config.rate = 10;
  config.final_rate = 10;
  config.warmup = 0;
  config.adamw.clip = 0;
  config.adamw.weight_decay = 10;  // weights grow a hundredfold a step
  const std::vector<uint8_t> tokens = text();
  Training training(config, make_cpu_kernels(1), make_solo_group(), tokens);
  EXPECT_THROW(
      {
        for (int i = 0; i < 200; ++i) training.step();
      },
      std::runtime_error);
}

TEST(Training, LeastTextIsEnough) {
  for (const double share : {0.05, 0.3, 0.5}) {
    RunConfig config = small_run();
    config.validation_share = share;
    config.steps = 2;
    config.validation_sequences = 1;
    std::vector<uint8_t> tokens(least_text(config), 'a');
    Training training(config, make_cpu_kernels(1), make_solo_group(), tokens);
    EXPECT_NO_THROW(training.step());
    EXPECT_NO_THROW(training.validation_loss());
  }
}

}  // namespace
}  // namespace megascale::trainer
