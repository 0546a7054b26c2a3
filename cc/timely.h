// The controller `timely`: a rate steered by the gradient of the RTT (Mittal et al., SIGCOMM 2015, algorithm
// 1), and its `patched` variant, which weighs the gradient against the RTT itself and so has one fixed point
// (Zhu et al., CoNEXT 2016, "ECN or Delay", section 5).
#pragma once
#include <memory>

#include "cc/path.h"

namespace megascale {

struct TimelyConstants {
  double smoothing, decrease;      // alpha and beta of the paper
  double low, high, least_rtt;     // ns
  double additive_rate, rates_at;  // bit/s
  double least_rate;               // bit/s
  unsigned hyper_after;            // steps with a falling RTT
  double hyper_factor;
  double segment;  // bytes
  bool patched;
};

class TimelyController final : public Controller {
 public:
  TimelyController(std::shared_ptr<const TimelyConstants>, const PathFacts&);

  std::string_view name() const override { return "timely"; }
  void ack(const Ack&) override;
  void timeout(Time) override;  // the paper leaves losses to the transport: here the rate halves

  Rate rate() const override;
  Bytes window() const override { return kNoWindow; }

 private:
  double original();
  double patched(double rtt) const;

  std::shared_ptr<const TimelyConstants> c_;
  Path path_;
  double step_;  // bit/s
  double rate_;  // bit/s
  double last_rtt_ = 0, difference_ = 0, gradient_ = 0;
  double acked_ = 0;  // bytes of the segment that is under way
  unsigned falling_ = 0;
};

Algorithm timely_algorithm();

}  // namespace megascale
