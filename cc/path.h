// The path as a controller reckons with it: what it was not told is assumed (the rate) or learned (the base
// RTT), so that no arithmetic ever meets a zero or an infinity.
#pragma once
#include <algorithm>

#include "cc/registry.h"

namespace megascale {

// Plain numbers for arithmetic: nanoseconds.
inline double ns(Duration d) { return static_cast<double>(d.count()); }
inline Duration from_ns(double n) { return Duration(static_cast<int64_t>(n)); }

class Path {
 public:
  explicit Path(const PathFacts& facts)
      : line_rate_(facts.line_rate),
        bytes_per_ns_(known(facts.line_rate) ? facts.line_rate.bits_per_second / 8e9 : kAssumedBytesPerNs),
        packet_(static_cast<double>(std::clamp<Bytes>(facts.packet, 64, 1 << 20))),
        learning_(facts.base_rtt <= Duration(0)),
        base_rtt_(learning_ ? kFirstGuess : ns(facts.base_rtt)) {}

  double packet() const { return packet_; }              // bytes
  double bytes_per_ns() const { return bytes_per_ns_; }  // of the port that sends
  double base_rtt() const { return base_rtt_; }          // ns
  double bdp() const { return bytes_per_ns_ * base_rtt_; }
  double bits_per_second() const { return bytes_per_ns_ * 8e9; }
  // A window of so many packets; never nothing, which would be a window for ever closed.
  Bytes bytes(double packets) const { return static_cast<Bytes>(std::max(packets * packet_, 1.0)); }
  // What to answer for "as fast as the port": as it was told, for an unknown port must not be held to a
  // guess.
  Rate line_rate() const { return known(line_rate_) ? line_rate_ : Rate::unlimited(); }
  Rate at_most_line_rate(double bits) const { return bits < bits_per_second() ? Rate{bits} : line_rate(); }

  // The least RTT measured stands for a base RTT that nobody told.
  void measured(Duration rtt) {
    if (!learning_ || rtt <= Duration(0)) return;
    base_rtt_ = heard_ ? std::min(base_rtt_, ns(rtt)) : ns(rtt);
    heard_ = true;
  }

 private:
  static constexpr double kAssumedBytesPerNs = 12.5;  // 100 Gb/s
  static constexpr double kFirstGuess = 10'000;       // ns: a data centre's order of magnitude
  static bool known(Rate r) { return r.bits_per_second > 0 && !r.is_unlimited(); }

  Rate line_rate_;
  double bytes_per_ns_, packet_;
  bool learning_, heard_ = false;
  double base_rtt_;
};

}  // namespace megascale
