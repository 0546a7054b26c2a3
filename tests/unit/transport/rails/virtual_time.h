// Time that passes only when a test says so, what is to happen in it, and chance that repeats itself: with
// them a test of ten thousand schedules is as deterministic as one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "cc/units.h"

namespace megascale {

// A sequence of numbers that a seed determines wholly (splitmix64; Steele, Lea, Flood, OOPSLA 2014).
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567) {}
  uint64_t roll() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return n ? roll() % n : 0; }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return static_cast<double>(roll() >> 11) * 0x1p-53 < p; }
  Duration between(Duration low, Duration high) {
    return low + Duration(static_cast<int64_t>(below(static_cast<uint64_t>((high - low).count()) + 1)));
  }

 private:
  uint64_t state_;
};

class VirtualTime {
 public:
  Time now() const { return now_; }
  Time next() const { return events_.empty() ? kNever : events_.front().when; }
  void at(Time when, std::function<void()> what) {
    events_.push_back({std::max(when, now_), ++count_, std::move(what)});
    std::push_heap(events_.begin(), events_.end());
  }
  void after(Duration d, std::function<void()> what) { at(now_ + d, std::move(what)); }
  // Lets everything happen that is due up to then.
  void pass_until(Time then) {
    while (!events_.empty() && events_.front().when <= then) {
      std::pop_heap(events_.begin(), events_.end());
      Event e = std::move(events_.back());
      events_.pop_back();
      now_ = e.when;
      e.what();
    }
    now_ = std::max(now_, then);
  }
  void forget_all() { events_.clear(); }

 private:
  struct Event {
    Time when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& o) const { return when != o.when ? when > o.when : order > o.order; }
  };
  Time now_{1s};
  uint64_t count_ = 0;
  std::vector<Event> events_;
};

}  // namespace megascale
