// Gradients summed over the ranks in buckets, each on its way as soon as the backward pass has finished it,
// while earlier layers still compute.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "trainer/parallel/group.h"

namespace megascale::trainer {

class GradientBuckets {
 public:
  // gradients: the model's flat vector, filled from its end to its start. The cuts depend on its size and on
  // bucket_bytes alone, never on timing, so the sums are the same in every run.
  GradientBuckets(Group& group, std::span<float> gradients, size_t bucket_bytes);

  // Gradients from `offset` to the end are final on this rank. Sends what became whole, and drives on what is
  // under way.
  void ready(size_t offset);

  // Waits for all buckets of the step; afterwards the gradients are sums over all ranks, and the next step
  // may begin. Everything must have been ready. Throws as Pending does.
  void finish();

  size_t buckets() const { return (gradients_.size() + per_bucket_ - 1) / per_bucket_; }
  // Time that this step's computation stood still for the network: in finish, and in handing buckets over.
  std::chrono::nanoseconds exposed() const { return exposed_; }

 private:
  Group& group_;
  std::span<float> gradients_;
  size_t per_bucket_;
  size_t unsent_;  // [0, unsent_) has not been sent in this step
  bool between_steps_ = true;
  std::vector<std::unique_ptr<Pending>> pending_;
  size_t finished_ = 0;  // pending_[0, finished_) are done
  std::chrono::nanoseconds exposed_{0};
};

}  // namespace megascale::trainer
