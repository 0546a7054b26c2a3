// Chance that is the same on every machine: the standard library's distributions are not.
#pragma once
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace megascale {

// A bijection of 64 bits that changes half of them when one changes (SplitMix64's finaliser, Steele et al.
// 2014).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed + 0x9e3779b97f4a7c15)) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  uint32_t below(uint32_t n) {
    return static_cast<uint32_t>(((next() >> 32) * uint64_t{n}) >> 32);
  }  // [0, n)
  double exponential(double mean) { return -mean * std::log(1 - uniform()); }

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

}  // namespace megascale
