// What a delay-based window does when it is small (Swift, SIGCOMM 2020, sections 3.1 and 3.5): its target
// grows, since many share the queue, and under one packet it is a pace.
#pragma once
#include <algorithm>
#include <cmath>

#include "cc/path.h"

namespace megascale {

class FlowScaling {
 public:
  // Of the parameters scaling_range, scaling_least_window and scaling_most_window.
  explicit FlowScaling(const Parameters& v) : range_(v.at("scaling_range") * 1e9) {
    const double least = v.at("scaling_least_window");
    const double most = std::max(v.at("scaling_most_window"), least * 1.001);
    a_ = range_ / (1 / std::sqrt(least) - 1 / std::sqrt(most));
    b_ = -a_ / std::sqrt(most);  // a window of `most` adds nothing
  }

  // ns that a window of so many packets adds to the target.
  double at(double window) const { return std::clamp(a_ / std::sqrt(window) + b_, 0.0, range_); }

 private:
  double range_, a_, b_;  // ns
};

// A packet each `round_trip` / `window`: the rate of a window of less than one packet.
inline Rate paced(const Path& path, double window, double round_trip) {
  const double between = std::max(round_trip / window, 1.0);  // ns
  return {std::min(path.packet() * 8e9 / between, path.line_rate().bits_per_second)};
}

}  // namespace megascale
