#include "trainer/random/counter.h"

#include <cmath>
#include <numbers>

namespace megascale::trainer {
namespace {

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t counter_random(uint64_t seed, uint64_t stream, uint64_t index) {
  return mix(mix(mix(seed) ^ stream) ^ index);
}

double counter_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t bits = counter_random(seed, stream, index);
  constexpr double kUnit = 1.0 / 4294967296.0;
  const double radius = (static_cast<double>(bits >> 32) + 0.5) * kUnit;  // never 0: its logarithm is finite
  const double turn = static_cast<double>(bits & 0xFFFFFFFFU) * kUnit;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * turn);
}

}  // namespace megascale::trainer
