// Units, in the type: time in nanoseconds, rates in bits per second, sizes in bytes.
#pragma once
#include <chrono>
#include <cstdint>

namespace megascale {

using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

// A clock that nobody in this library reads: whoever drives an object passes the time in, so that real and
// simulated time are the same to it.
struct AnyClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<AnyClock, Duration>;
  static constexpr bool is_steady = true;
};
using Time = AnyClock::time_point;
inline constexpr Time kNever = Time::max();

constexpr double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
// At most 292 years.
constexpr Duration from_seconds(double s) {
  return s < 9.2e9 ? Duration(static_cast<int64_t>(s * 1e9)) : Duration::max();
}

using Bytes = uint64_t;

// A rate in bits per second. Zero is "stopped", Rate::unlimited() is "as fast as the link goes".
struct Rate {
  double bits_per_second = 0;

  static constexpr Rate unlimited() { return {1e18}; }
  static constexpr Rate gigabits(double g) { return {g * 1e9}; }
  constexpr bool is_unlimited() const { return bits_per_second >= 1e18; }
  constexpr double bytes_per_second() const { return bits_per_second / 8; }
  // Of a rate that is not zero: what is stopped has no time.
  constexpr Duration time_for(Bytes n) const {
    return is_unlimited() ? Duration(0) : from_seconds(static_cast<double>(n) * 8 / bits_per_second);
  }
  constexpr auto operator<=>(const Rate&) const = default;
};

}  // namespace megascale
