#include "cc/fixed.h"

#include <algorithm>

namespace megascale {
namespace {

constexpr Parameter kParameters[] = {
    {"rate", "bit/s", 0, 0, 1e15, "The rate; 0: that of the port, or unlimited when that is not known."},
    {"window", "bytes", 0, 0, 1e15, "The most that is unacknowledged; 0: no limit."},
};

// Never faster than the port: what it cannot take would only queue in the host.
Recipe prepare(const Parameters& values) {
  const Rate asked{values.at("rate")};
  const auto window = static_cast<Bytes>(values.at("window"));
  return [=](const PathFacts& path) {
    return std::make_unique<FixedController>(
        asked.bits_per_second > 0 ? std::min(asked, path.line_rate) : path.line_rate,
        window > 0 ? window : kNoWindow);
  };
}

}  // namespace

Algorithm fixed_algorithm() {
  return {"fixed", "A constant rate and window, whatever the network says.", kParameters, prepare};
}

}  // namespace megascale
