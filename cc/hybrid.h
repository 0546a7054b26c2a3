// The controller `hybrid`: Swift's delay decides how much, marks (ECN or CNP) decide whether. Ours; the idea
// is MegaScale's (NSDI 2024, section 3.6), which combines Swift's RTT with DCQCN's fast response to ECN and
// gives no algorithm. docs/congestion-control.md says what each rule is for and what it is worth.
//
// It needs no trust in either signal alone. Delay without marks is not our queue, unless it is more than a
// switch would leave unmarked; a mark without delay is another path's; both together are a queue of ours, and
// its delay says how large it is. Acknowledgements may be one for each packet, with marks, or few, with
// notification packets between them.
#pragma once
#include <limits>
#include <memory>

#include "cc/flow_scaling.h"
#include "cc/host_window.h"
#include "cc/path.h"
#include "cc/rounds.h"

namespace megascale {

struct HybridConstants {
  double queue_target;  // ns of queueing aimed at
  FlowScaling scaling;
  double guard;          // ns above the target that are not believed without a mark
  double increase;       // packets in an RTT
  double most_increase;  // packets for each that is acknowledged
  unsigned fast_after;   // clean rounds
  double fast_most;      // times the increase
  double fair_increase;  // times the increase, above the target without a mark
  double decrease, most_decrease, cnp_factor;
  double far_off;  // queue targets
  HostWindow::Constants host;
  double least_window, initial_window;  // packets
  double most_window;                   // products of line rate and base RTT
  double rtt_reference;                 // ns
  unsigned reset_after;                 // timeouts
  double rtt_fairness;                  // power of base RTT / reference
  bool marks, share, filter, slow_start, used_window, pace_by_target;
};

class HybridController final : public Controller {
 public:
  HybridController(std::shared_ptr<const HybridConstants>, const PathFacts&);

  std::string_view name() const override { return "hybrid"; }
  void sent(Time, Bytes, Bytes inflight) override;
  void ack(const Ack&) override;
  void cnp(Time) override;
  void loss(Time, Bytes) override;
  void timeout(Time) override;

  Rate rate() const override;
  Bytes window() const override;

 private:
  double size() const { return fabric_ < host_.size() ? fabric_ : host_.size(); }  // packets
  double target() const;                                                           // ns
  double step() const;                                                             // packets in an RTT
  double most() const;                                                             // packets
  double used() const;                                                             // packets
  double paced_below() const;                                                      // packets
  double marked_share() const;
  void end_round(double target);
  void steer(double packets, double delay, double target, bool marked, bool binds);
  void grow(double share, double packets);
  void decrease(double factor, bool far);
  bool far(double delay) const;
  double factor(double delay, double target) const;

  std::shared_ptr<const HybridConstants> c_;
  Path path_;
  Rounds rounds_;
  double fabric_;  // packets
  HostWindow host_;
  double rtt_;                                             // ns, the last
  double least_now_ = kNoDelay, least_before_ = kNoDelay;  // ns: of this round and of the last
  Bytes inflight_now_ = 0, inflight_before_ = 0;           // the most in this round and in the last
  uint64_t acked_ = 0, sent_to_ = 0;
  double before_window_ = 0, before_decrease_ = 0;  // packets: what a decrease that is under way began with
  uint64_t decreasing_to_ = 0;                      // it is under way until so much is acknowledged
  double covered_ = 1;  // packets that one acknowledgement covers: the most, forgotten slowly
  double gap_ = 0;      // ns between the last two packets
  Time heard_{}, sent_{};
  unsigned clean_ = 0, timeouts_ = 0;
  double acked_now_ = 0, acked_before_ = 0, marked_now_ = 0, marked_before_ = 0;  // bytes, as above
  double rtt_factor_ = 1;                                                         // of the increase
  bool begun_ = false, starting_, notified_ = false;

  static constexpr double kNoDelay = std::numeric_limits<double>::max();
};

Algorithm hybrid_algorithm();

}  // namespace megascale
