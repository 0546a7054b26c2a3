// A training run, step by step: this rank's share of the batch forward and backward, gradients summed over
// the ranks meanwhile, one step of the optimizer.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/configuration/run_config.h"
#include "trainer/data/sample_order.h"
#include "trainer/kernels/kernels.h"
#include "trainer/model/gpt.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/parallel/gradient_buckets.h"
#include "trainer/parallel/group.h"

namespace megascale::trainer {

struct StepReport {
  size_t step = 0;           // counts from 1
  double loss = 0;           // of the whole batch, before the step; nats a token
  double gradient_norm = 0;  // before clipping
  double rate = 0;
  double seconds = 0;
  double exposed_seconds = 0;  // of them, standing still for the network
  size_t tokens = 0;           // of all ranks
};

class Training {
 public:
  // A collective call: every rank must bring the same configuration and the same text, else
  // std::runtime_error. The text must outlive the run.
  Training(const RunConfig& config, std::unique_ptr<Kernels<float>> kernels, std::unique_ptr<Group> group,
           std::span<const uint8_t> text);

  // Collective calls, alike on all ranks. They throw std::runtime_error when the network gave up (naming the
  // peer) or the loss is not a number.
  StepReport step();
  double validation_loss();

  size_t steps_done() const { return steps_done_; }
  int rank() const { return group_->rank(); }
  int ranks() const { return group_->ranks(); }
  std::string network() const { return group_->network(); }
  std::string kernels() const { return kernels_->name(); }
  size_t gradient_bytes() const { return model_.parameters_count() * sizeof(float); }
  size_t buckets() const { return buckets_.buckets(); }
  std::span<const float> weights() { return model_.parameters(); }

 private:
  double pass(std::span<const uint64_t> offsets, std::span<const uint8_t> text, bool learn, bool last);
  double sum_over_ranks(double value);
  void check_agreement(std::span<const uint8_t> text);

  RunConfig config_;
  std::unique_ptr<Kernels<float>> kernels_;
  std::span<const uint8_t> training_text_, validation_text_;
  SampleOrder order_;
  Gpt<float> model_;
  AdamW<float> optimizer_;
  size_t steps_done_ = 0;
  std::unique_ptr<Group> group_;  // goes before the memory that it was given
  GradientBuckets buckets_;
};

// The smallest text, in bytes, that a configuration can use.
size_t least_text(const RunConfig& config);

}  // namespace megascale::trainer
