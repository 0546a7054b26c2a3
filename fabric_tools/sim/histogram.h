// A histogram whose buckets grow with the value: exact below 128, then 64 buckets for each doubling, so that
// a quantile is right within 1.6 %. Mean and greatest are exact.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "fabric_tools/sim/simulation.h"

namespace megascale::sim {

class Histogram {
 public:
  Histogram() : counts_(kBuckets) {}

  void add(uint64_t value) {
    ++counts_[bucket(value)];
    ++count_;
    sum_ += static_cast<double>(value);
    max_ = std::max(max_, value);
  }

  void add(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
  }

  uint64_t count() const { return count_; }

  // The greatest value of the bucket that holds the quantile.
  uint64_t quantile(double share) const {
    const auto wanted = static_cast<uint64_t>(share * static_cast<double>(count_));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen > wanted) return std::min(upper(i), max_);
    }
    return max_;
  }

  Quantiles quantiles() const {
    if (count_ == 0) return {};
    return {sum_ / static_cast<double>(count_), static_cast<double>(quantile(0.5)),
            static_cast<double>(quantile(0.99)), static_cast<double>(max_)};
  }

 private:
  static constexpr size_t kExact = 128, kPerDoubling = 64;
  static constexpr size_t kBuckets = kExact + (64 - 7) * kPerDoubling;

  static size_t bucket(uint64_t v) {
    if (v < kExact) return v;
    const auto shift = static_cast<unsigned>(std::bit_width(v)) - 7;
    return kExact + (shift - 1) * kPerDoubling + ((v >> shift) - kPerDoubling);
  }
  static uint64_t upper(size_t i) {
    if (i < kExact) return i;
    const size_t shift = (i - kExact) / kPerDoubling + 1;
    return ((kPerDoubling + (i - kExact) % kPerDoubling + 1) << shift) - 1;
  }

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0, max_ = 0;
  double sum_ = 0;
};

}  // namespace megascale::sim
