// The controller `barre`: a rate cut a little by every congestion notification and raised once in each
// measured RTT that brought none, so that congestion itself slows the increase (Barre, USENIX ATC 2025).
//
// Where the authors' paper gives no number (the increase, and after how many clean increases it grows) the
// number is ours, and the parameter says so.
#pragma once
#include <memory>

#include "cc/path.h"

namespace megascale {

struct BarreConstants {
  double decrease;        // beta: what a notification leaves
  double slow_share;      // of the line rate, for a reference RTT
  double reference_rtt;   // ns: C of the paper
  double fast_share;      // of the line rate
  unsigned fast_after;    // clean increases
  double byte_lock;       // bytes
  double overrun_factor;  // of the rate, when more is in flight than the rate explains
  double least_rate;      // bit/s
};

class BarreController final : public Controller {
 public:
  BarreController(std::shared_ptr<const BarreConstants>, const PathFacts&);

  std::string_view name() const override { return "barre"; }
  void sent(Time, Bytes bytes, Bytes) override;
  void ack(const Ack&) override;  // a marked one counts as a notification
  void cnp(Time) override;
  void timeout(Time now) override { cnp(now); }

  Rate rate() const override;
  Bytes window() const override { return kNoWindow; }

 private:
  void increase();

  std::shared_ptr<const BarreConstants> c_;
  Path path_;
  double rate_;            // bit/s
  double rtt_;             // ns, the last
  double unheard_ = 0;     // bytes sent since the last feedback
  double since_step_ = 0;  // bytes sent since the last increase
  Time step_{};            // the last increase or notification
  unsigned clean_ = 0;
  bool overrun_ = false;
};

Algorithm barre_algorithm();

}  // namespace megascale
