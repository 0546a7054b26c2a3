// The controller `dcqcn`: a rate cut by congestion notifications in proportion to how many there were lately,
// and raised again by a timer and a byte counter (Zhu et al., SIGCOMM 2015, section 3 and figure 7).
//
// NICs do it in another order (`nic_order`): alpha is updated by a timer of its own whether or not a
// notification came, the rate is cut on the beat of a second timer, after alpha, and only time raises it.
// Both are here since their results differ. Alpha's timer may run every microsecond: it is worked out when it
// is needed, and costs no ticks.
#pragma once
#include <memory>

#include "cc/path.h"

namespace megascale {

struct DcqcnConstants {
  double g, initial_alpha;
  double alpha_timer, cut_gap, increase_timer;  // ns
  double byte_counter;                          // 0: none
  unsigned fast_recovery;                       // F of the paper
  double additive_rate, hyper_rate, rates_at;   // bit/s
  double least_rate;                            // bit/s
  double least_cut_factor;                      // a cut leaves at least this share
  bool clamp_target, nic_order;
};

class DcqcnController final : public Controller {
 public:
  DcqcnController(std::shared_ptr<const DcqcnConstants>, const PathFacts&);

  std::string_view name() const override { return "dcqcn"; }
  void sent(Time, Bytes bytes, Bytes inflight) override;
  void ack(const Ack&) override;  // a marked one counts as a notification
  void cnp(Time) override;
  void timeout(Time) override;  // the paper's network loses nothing; what is lost is congestion
  void tick(Time) override;

  Rate rate() const override;
  Bytes window() const override { return kNoWindow; }
  Time next_tick() const override { return cut_at_ < increase_at_ ? cut_at_ : increase_at_; }

 private:
  void bring_alpha_to(Time);
  void cut(Time);
  void increase(unsigned& stage);
  double scaled(double rate) const { return rate * scale_; }

  std::shared_ptr<const DcqcnConstants> c_;
  Path path_;
  double scale_;             // of the rates of increase
  double current_, target_;  // bit/s
  double alpha_;
  Time alpha_at_{}, last_cut_{}, cut_at_ = kNever, increase_at_ = kNever;
  double bytes_ = 0;
  unsigned time_stage_ = 0, byte_stage_ = 0;
  bool notified_ = false;  // since alpha was updated
  bool cut_before_ = false;
};

Algorithm dcqcn_algorithm();

}  // namespace megascale
