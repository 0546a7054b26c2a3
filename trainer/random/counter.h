// Randomness by counter: each value is a function of (seed, stream, index), so that every rank, every layout
// and every resumed run draws the same ones without a message and without a state.
#pragma once
#include <cstdint>

namespace megascale::trainer {

// 64 random bits: SplitMix64's mixing (Steele, Lea, Flood, OOPSLA 2014) over the counter.
uint64_t counter_random(uint64_t seed, uint64_t stream, uint64_t index);

// A value of the standard normal distribution (Box and Muller's transform).
double counter_normal(uint64_t seed, uint64_t stream, uint64_t index);

}  // namespace megascale::trainer
