// The controller `nscc`: network-signalled congestion control of Ultra Ethernet (SMaRTT-REPS; the constants
// are those of the consortium's simulator), a window steered by the four combinations of mark and delay:
// neither, grow by the distance to the target; delay alone, grow fairly; both, decrease; a mark alone, leave
// it to path selection.
#pragma once
#include <memory>

#include "cc/path.h"

namespace megascale {

struct NsccConstants {
  double target_ratio;  // of the queueing delay aimed at to the base RTT
  double proportional, fair, eta, fast, decrease, most_decrease;
  double fast_below;   // ns
  double smoothing;    // of the delay
  double most_window;  // products of line rate and base RTT
  double adapt_delay, adapt_share;
  double adjust_packets;
};

class NsccController final : public Controller {
 public:
  NsccController(std::shared_ptr<const NsccConstants>, const PathFacts&);

  std::string_view name() const override { return "nscc"; }
  void sent(Time, Bytes, Bytes inflight) override;
  void ack(const Ack&) override;
  void cnp(Time) override { marked_ = true; }  // counts as a mark on the next acknowledgement
  void loss(Time, Bytes) override { lost_ = true; }
  void timeout(Time) override;

  Rate rate() const override { return path_.line_rate(); }
  Bytes window() const override { return static_cast<Bytes>(window_); }

 private:
  double target() const { return path_.base_rtt() * c_->target_ratio; }
  static constexpr double kReferenceRtt = 12'000;  // ns: the constants are given for it,
  double scale() const { return path_.bdp() / (12.5 * kReferenceRtt); }  // and for 100 Gb/s
  double most() const { return std::max(path_.bdp() * c_->most_window, path_.packet()); }
  bool adapt(const Ack&, double delay);
  void grow_proportionally(double bytes, double delay);
  void decrease(Time);
  void apply(Time);
  void clamp();

  std::shared_ptr<const NsccConstants> c_;
  Path path_;
  double window_;           // bytes
  double mean_delay_ = 0;   // ns of queueing
  double pending_ = 0;      // bytes x bytes: divided by the window when it is applied
  double since_apply_ = 0;  // bytes
  double fast_bytes_ = 0;   // acknowledged without queueing, in a row
  double achieved_ = 0;     // bytes acknowledged since the last look
  uint64_t acked_ = 0, sent_to_ = 0, ignore_until_ = 0;
  Time applied_{}, decreased_{}, looked_{};
  bool begun_ = false, marked_ = false, lost_ = false;
};

Algorithm nscc_algorithm();

}  // namespace megascale
