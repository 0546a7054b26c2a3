#include "trainer/loop/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>

#include "trainer/model/initial_weights.h"

namespace megascale::trainer {
namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

size_t validation_bytes(const RunConfig& config, size_t size) {
  return static_cast<size_t>(static_cast<double>(size) * config.validation_share);
}

uint64_t fingerprint(std::span<const uint8_t> text) {
  uint64_t value = text.size();
  for (const uint8_t byte : text) value = (value ^ byte) * 0x100000001B3U;  // FNV-1a's step
  return value;
}

}  // namespace

size_t least_text(const RunConfig& config) {
  const double windows = static_cast<double>(2 * config.model.context + 2);
  return static_cast<size_t>(windows / std::min(config.validation_share, 1 - config.validation_share)) + 1;
}

Training::Training(const RunConfig& config, std::unique_ptr<Kernels<float>> kernels,
                   std::unique_ptr<Group> group, std::span<const uint8_t> text)
    : config_(config),
      kernels_(std::move(kernels)),
      training_text_(text.first(text.size() - validation_bytes(config, text.size()))),
      validation_text_(text.last(validation_bytes(config, text.size()))),
      order_(training_text_.size(), config.model.context, config.seed),
      model_(config.model, *kernels_, config.micro_batch_of(group->ranks())),
      optimizer_(model_.tensors(), config.adamw, *kernels_),
      group_(std::move(group)),
      buckets_(*group_, model_.gradients(), config.bucket_bytes) {
  check_ranks(config_, group_->ranks());
  check_agreement(text);
  initial_weights(model_.tensors(), config_.seed, model_.parameters());
}

void Training::check_agreement(std::span<const uint8_t> text) {
  if (!group_->agree(config_.fingerprint()))
    throw std::runtime_error(
        "the ranks were given different configurations; start all with the same file and options");
  if (!group_->agree(fingerprint(text)))
    throw std::runtime_error("the ranks read different texts; data.text must be the same file on every host");
}

double Training::sum_over_ranks(double value) {
  group_->sum(std::span<double>(&value, 1))->wait();
  return value;
}

// One micro-batch: the sum of its losses, and its gradients added. With `last` set the gradients leave as
// they become final.
double Training::pass(std::span<const uint64_t> offsets, std::span<const uint8_t> text, bool learn,
                      bool last) {
  BatchReader reader(text, config_.model.context);
  for (const uint64_t offset : offsets) reader.append(offset);
  const Batch batch{reader.inputs(), reader.targets(), offsets.size()};
  const double loss = model_.forward(batch);
  if (!learn) return loss;
  const float scale = 1.0F / static_cast<float>(config_.batch * config_.model.context);
  if (last) model_.backward(batch, scale, [&](size_t offset) { buckets_.ready(offset); });
  else model_.backward(batch, scale);
  return loss;
}

StepReport Training::step() {
  const auto begin = Clock::now();
  const Share share = share_of(config_.batch, group_->rank(), group_->ranks());
  const size_t micro = config_.micro_batch_of(group_->ranks());
  std::vector<uint64_t> offsets(share.count);
  for (size_t i = 0; i < share.count; ++i)
    offsets[i] = order_.offset(steps_done_ * config_.batch + share.first + i);

  model_.zero_gradients();
  double loss = 0;
  for (size_t first = 0; first < share.count; first += micro)
    loss +=
        pass(std::span(offsets).subspan(first, micro), training_text_, true, first + micro == share.count);
  buckets_.finish();
  const auto summing = Clock::now();
  StepReport report;
  report.tokens = config_.batch * config_.model.context;
  report.loss = sum_over_ranks(loss) / static_cast<double>(report.tokens);
  report.exposed_seconds = seconds(buckets_.exposed() + (Clock::now() - summing));
  if (!std::isfinite(report.loss))
    throw std::runtime_error("the loss of step " + std::to_string(steps_done_ + 1) +
                             " is not a number; lower optimizer.rate or lengthen optimizer.warmup");
  report.rate = config_.schedule().rate(steps_done_);
  report.gradient_norm = optimizer_.step(report.rate, model_.gradients(), model_.parameters());
  report.step = ++steps_done_;
  report.seconds = seconds(Clock::now() - begin);
  return report;
}

// Windows spread evenly over the validation text, the same ones every time.
double Training::validation_loss() {
  const auto ranks = static_cast<size_t>(group_->ranks());
  const size_t context = config_.model.context, windows = (validation_text_.size() - 1) / context;
  const size_t count = std::min(config_.validation_sequences, windows) / ranks * ranks;
  if (count == 0) throw std::runtime_error("the validation text has fewer sequences than there are ranks");
  const Share share = share_of(count, group_->rank(), group_->ranks());
  const size_t micro = config_.micro_batch_of(group_->ranks());
  std::vector<uint64_t> offsets(share.count);
  for (size_t i = 0; i < share.count; ++i) offsets[i] = (share.first + i) * windows / count * context;
  double loss = 0;
  for (size_t first = 0; first < share.count; first += micro)
    loss += pass(std::span(offsets).subspan(first, std::min(micro, share.count - first)), validation_text_,
                 false, false);
  return sum_over_ranks(loss) / static_cast<double>(count * context);
}

}  // namespace megascale::trainer
