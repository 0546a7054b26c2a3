#include "fabric_tools/sim/deliveries.h"

#include <algorithm>
#include <cmath>

namespace megascale::sim {

void Sample::add(double value) {
  ++count_;
  sum_ += value;
  max_ = std::max(max_, value);
  if (values_.size() < kMost) {
    values_.push_back(static_cast<float>(value));
  } else if (const uint64_t place = random_.next() % count_; place < kMost) {
    values_[place] = static_cast<float>(value);
  }
}

Quantiles Sample::quantiles() const {
  if (count_ == 0) return {};
  std::vector<float> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  // The least that `share` of all do not exceed: of two, the larger is the 99th percentile.
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(sorted.size()));
    return static_cast<double>(sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1]);
  };
  return {sum_ / static_cast<double>(count_), at(0.5), at(0.99), max_};
}

void Deliveries::add(uint32_t connection, uint64_t tag, Tick posted, Tick at, Bytes bytes, Tick alone) {
  ++messages_;
  bytes_ += bytes;
  last_ = std::max(last_, at);
  const auto took = static_cast<double>(at - posted);
  slowdowns_.add(took / static_cast<double>(std::max<Tick>(alone, 1)));
  digest_ = mix(digest_ ^ mix(tag ^ uint64_t{connection} << 40) ^ static_cast<uint64_t>(at));
}

void Deliveries::add_connection(Tick active, Bytes bytes) {
  if (active <= 0) return;
  const double rate = static_cast<double>(bytes) / static_cast<double>(active);
  ++connections_;
  rates_ += rate;
  squares_ += rate * rate;
}

void Deliveries::report(Result& result) const {
  result.completion = duration(last_);
  result.messages = messages_;
  result.delivered = bytes_;
  result.slowdown = slowdowns_.quantiles();
  result.slowdowns = slowdowns_.values();
  // Jain, Chiu and Hawe 1984.
  result.jain = squares_ > 0 ? rates_ * rates_ / (static_cast<double>(connections_) * squares_) : 0;
  result.digest = digest_;
}

}  // namespace megascale::sim
