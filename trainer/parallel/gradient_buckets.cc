#include "trainer/parallel/gradient_buckets.h"

#include <algorithm>
#include <stdexcept>

namespace megascale::trainer {

using Clock = std::chrono::steady_clock;

GradientBuckets::GradientBuckets(Group& group, std::span<float> gradients, size_t bucket_bytes)
    : group_(group),
      gradients_(gradients),
      per_bucket_(std::max<size_t>(1, bucket_bytes / sizeof(float))),
      unsent_(gradients.size()) {
  group.keep(gradients);
}

void GradientBuckets::ready(size_t offset) {
  if (between_steps_) {
    between_steps_ = false;
    exposed_ = {};
  }
  const auto begin = Clock::now();
  while (unsent_ > 0) {
    const size_t first = unsent_ > per_bucket_ ? unsent_ - per_bucket_ : 0;
    if (first < offset) break;
    pending_.push_back(group_.sum(gradients_.subspan(first, unsent_ - first)));
    unsent_ = first;
  }
  while (finished_ < pending_.size() && pending_[finished_]->done()) ++finished_;
  exposed_ += Clock::now() - begin;
}

void GradientBuckets::finish() {
  if (unsent_ > 0)
    throw std::logic_error("the backward pass left " + std::to_string(unsent_) + " gradients unfinished");
  const auto begin = Clock::now();
  for (; finished_ < pending_.size(); ++finished_) pending_[finished_]->wait();
  pending_.clear();
  finished_ = 0;
  unsent_ = gradients_.size();
  between_steps_ = true;
  exposed_ += Clock::now() - begin;
}

}  // namespace megascale::trainer
