// The window that the receiver's host allows, by how long it keeps packets (Swift, SIGCOMM 2020,
// section 3.2): a slow host is told from a full fabric, and each has a window of its own, of which the
// smaller holds.
#pragma once
#include <algorithm>
#include <limits>

#include "cc/path.h"

namespace megascale {

class HostWindow {
 public:
  struct Constants {
    double target;  // ns
    double increase, decrease, most_decrease;
  };

  double size() const { return size_; }  // packets

  // `binds`: it is the smaller window. One that does not bind does not grow: the delay says nothing about a
  // larger window. A host that never tells its delay allows everything; one that does, `most` packets.
  void ack(const Ack& a, double packets, bool binds, double least, double most, const Constants& c) {
    if (a.remote_hold <= Duration(0) && delay_ <= 0) return;
    size_ = std::min(size_, most);
    delay_ += (std::clamp(ns(a.remote_hold), 0.0, ns(a.rtt)) - delay_) / 8;
    if (delay_ < c.target) {
      if (binds) size_ += c.increase * packets / std::max(size_, 1.0);
    } else if (!decreased_ || a.now - last_decrease_ >= a.rtt) {
      size_ *= std::max(1 - c.decrease * (delay_ - c.target) / delay_, 1 - c.most_decrease);
      last_decrease_ = a.now;
      decreased_ = true;
    }
    size_ = std::clamp(size_, least, most);
  }

 private:
  double size_ = std::numeric_limits<double>::infinity();  // packets
  double delay_ = 0;                                       // ns, smoothed
  Time last_decrease_{};
  bool decreased_ = false;
};

}  // namespace megascale
