// Random numbers of traffic: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), so that a seed means the same
// traffic with every compiler and library.
#pragma once
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace megascale::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Below `limit`, each equally likely: values from the uneven end of the range are drawn again.
  uint32_t below(uint32_t limit) {
    const uint64_t even = UINT64_MAX - UINT64_MAX % limit;
    uint64_t value = next();
    while (value >= even) value = next();
    return static_cast<uint32_t>(value % limit);
  }
  // Above 0, at most 1.
  double unit() { return (static_cast<double>(next() >> 11) + 1) * 0x1p-53; }
  double exponential(double mean) { return -mean * std::log(unit()); }

  void shuffle(std::vector<uint32_t>& values) {
    for (uint32_t left = static_cast<uint32_t>(values.size()); left > 1; --left)
      std::swap(values[left - 1], values[below(left)]);
  }
  // A permutation of 0 to n-1 without a fixed point: shuffled until there is none (2.7 times on average).
  std::vector<uint32_t> derangement(uint32_t n) {
    std::vector<uint32_t> values(n);
    std::iota(values.begin(), values.end(), 0);
    for (bool fixed = n > 1; fixed;) {
      shuffle(values);
      fixed = false;
      for (uint32_t i = 0; i < n; ++i) fixed |= values[i] == i;
    }
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace megascale::sim
