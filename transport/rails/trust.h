// How far each path of a connection is trusted: when to dial it next, which to prefer, when to come home.
#pragma once
#include <algorithm>
#include <cmath>

#include "transport/link.h"

namespace megascale {

// A path that flaps is left alone longer each time: dialled at once after the first flaps, later after more,
// so that one which breaks as soon as it is used is not dialled in a tight loop. The memory of a flap halves
// every minute.
class Trust {
 public:
  static constexpr Duration kFirstRetry = 20ms, kLastRetry = 500ms, kHalfLife = 60s;
  static constexpr double kFlapsCounted = 6;

  void flapped(Time now) {
    flaps_ = std::min(flaps(now) + 1, kFlapsCounted);
    bad_ = now;
    int often = static_cast<int>(std::round(flaps_)) - 3;
    retry_ = often < 0 ? now : now + kFirstRetry * (1 << often);
    back_off_ = kFirstRetry;
  }
  void failed(Time now) {  // a dial had no success, or what it made broke before it was of use
    flaps_ = flaps(now);
    bad_ = now;
    retry_ = now + back_off_;
    back_off_ = std::min(back_off_ * 2, kLastRetry);
  }
  void returned(Time now) {  // its interface or address came back: a dial is worth trying at once
    retry_ = now;
    back_off_ = kFirstRetry;
  }
  void opened() { back_off_ = kFirstRetry; }  // a dial's link came into use

  double flaps(Time now) const {
    return flaps_ == 0 ? 0 : flaps_ * std::exp2(-seconds(now - bad_) / seconds(kHalfLife));
  }
  bool worth_a_dial(Time now) const { return now >= retry_; }
  // Hysteresis: well for `hold`, doubled for every recent flap but the first.
  bool well_for(Duration hold, Time now) const {
    double doubled = std::exp2(std::max(0.0, std::round(flaps_) - 1));
    return flaps_ == 0 || now >= bad_ + from_seconds(seconds(hold) * doubled);
  }

 private:
  double flaps_ = 0;  // as of bad_
  Time bad_{}, retry_{};
  Duration back_off_ = kFirstRetry;
};

}  // namespace megascale
