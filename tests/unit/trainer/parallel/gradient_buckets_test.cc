// Buckets: what is sent when, and that the sum is whole.
#include "trainer/parallel/gradient_buckets.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/trainer/parallel/thread_group.h"

namespace megascale::trainer {
namespace {

// Writes down what it was asked to sum; operations are done when told so.
class Recorder : public Group {
 public:
  struct Asked {
    size_t offset, count;
  };
  class Held : public Pending {
   public:
    explicit Held(Recorder* recorder) : recorder_(recorder) {}
    bool done() override { return recorder_->finish; }
    void wait() override {
      if (recorder_->fail) throw std::runtime_error("rank 1 is gone");
      ++recorder_->waited;
    }

   private:
    Recorder* recorder_;
  };
  explicit Recorder(const float* base) : base_(base) {}
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  std::string network() const override { return "recorder"; }
  std::unique_ptr<Pending> sum(std::span<float> data) override {
    asked.push_back({static_cast<size_t>(data.data() - base_), data.size()});
    return std::make_unique<Held>(this);
  }
  std::unique_ptr<Pending> sum(std::span<double>) override { return nullptr; }
  std::unique_ptr<Pending> minimum(std::span<uint64_t>) override { return nullptr; }

  std::vector<Asked> asked;
  bool finish = false, fail = false;
  int waited = 0;

 private:
  const float* base_;
};

TEST(GradientBuckets, LeaveAsSoonAsTheyAreWholeAndNoSooner) {
  std::vector<float> gradients(100);
  Recorder recorder(gradients.data());
  GradientBuckets buckets(recorder, gradients, 30 * sizeof(float));
  EXPECT_EQ(buckets.buckets(), 4U);
  buckets.ready(71);
  EXPECT_EQ(recorder.asked.size(), 0U);
  buckets.ready(70);
  ASSERT_EQ(recorder.asked.size(), 1U);
  EXPECT_EQ(recorder.asked[0].offset, 70U);
  EXPECT_EQ(recorder.asked[0].count, 30U);
  buckets.ready(5);  // two at once
  ASSERT_EQ(recorder.asked.size(), 3U);
  EXPECT_EQ(recorder.asked[2].offset, 10U);
  EXPECT_THROW(buckets.finish(), std::logic_error);
  buckets.ready(0);
  ASSERT_EQ(recorder.asked.size(), 4U);
  EXPECT_EQ(recorder.asked[3].offset, 0U);
  EXPECT_EQ(recorder.asked[3].count, 10U);
  buckets.finish();
  EXPECT_EQ(recorder.waited, 4);
  recorder.finish = true;
  buckets.ready(0);  // the next step: those that are done are not waited for
  buckets.finish();
  EXPECT_EQ(recorder.asked.size(), 8U);
  EXPECT_EQ(recorder.waited, 4);
}

TEST(GradientBuckets, PassTheNetworksFailureOn) {
  std::vector<float> gradients(10);
  Recorder recorder(gradients.data());
  recorder.fail = true;
  GradientBuckets buckets(recorder, gradients, 16);
  buckets.ready(0);
  EXPECT_THROW(buckets.finish(), std::runtime_error);
}

TEST(GradientBuckets, SumOverTheRanks) {
  run_ranks(3, [](std::unique_ptr<Group> group) {
    std::vector<float> gradients(1000);
    GradientBuckets buckets(*group, gradients, 256);
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < gradients.size(); ++i)
        gradients[i] = static_cast<float>(i) * static_cast<float>(group->rank() + 1 + step);
      for (const size_t offset : {900, 512, 100, 0}) buckets.ready(offset);
      buckets.finish();
      for (size_t i = 0; i < gradients.size(); ++i)
        if (gradients[i] != static_cast<float>(i) * static_cast<float>(6 + 3 * step))
          throw std::runtime_error("element " + std::to_string(i) + " is wrong");
    }
  });
}

TEST(Group, AgreesOnlyWhenAllCameWithTheSame) {
  for (const uint64_t odd_one : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}})
    run_ranks(3, [&](std::unique_ptr<Group> group) {
      if (!group->agree(77)) throw std::runtime_error("all brought 77");
      if (group->agree(group->rank() == 1 ? odd_one : 77)) throw std::runtime_error("one did not bring 77");
    });
}

}  // namespace
}  // namespace megascale::trainer
