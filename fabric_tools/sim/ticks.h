// The simulator's clock counts picoseconds: 4160 bytes at 100 Gbit/s take 332.8 ns, and a message has
// hundreds of them. Controllers are told nanoseconds.
#pragma once
#include <cstdint>
#include <limits>

#include "cc/units.h"

namespace megascale::sim {

using Tick = int64_t;
inline constexpr Tick kNoTick = std::numeric_limits<Tick>::max();

constexpr Tick ticks(Duration d) { return d.count() > kNoTick / 1000 ? kNoTick : d.count() * 1000; }
constexpr Tick ticks(Time t) { return ticks(t.time_since_epoch()); }
constexpr Duration duration(Tick t) { return Duration((t + 500) / 1000); }
constexpr Time time(Tick t) { return Time(Duration(t / 1000)); }

constexpr double ticks_per_byte(Rate r) { return r.bits_per_second > 0 ? 8e12 / r.bits_per_second : 0; }
inline Tick ticks_for(Bytes n, double per_byte) {
  // Never negative; and lround() is a call, for each packet and hop.
  return static_cast<Tick>(static_cast<double>(n) * per_byte + 0.5);  // NOLINT(bugprone-incorrect-roundings)
}

}  // namespace megascale::sim
