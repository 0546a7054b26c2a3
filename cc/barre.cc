#include "cc/barre.h"

#include <algorithm>

namespace megascale {
namespace {

constexpr Parameter kParameters[] = {
    {"decrease", "", 0.98, 0.1, 1, "What each notification leaves of the rate (beta, 0.95 to 0.99)."},
    {"slow_share", "", 1.0 / 20000, 0, 1,
     "One increase, as a share of the line rate, at an RTT of reference_rtt (alpha; ours)."},
    {"reference_rtt", "s", 1e-6, 1e-9, 1, "An increase is proportional to RTT / this (C, 1 to 2 us)."},
    {"fast_share", "", 1e-3, 0, 1,
     "An increase after fast_after clean ones, as a share of the line rate (A)."},
    {"fast_after", "", 5, 1, 1e6, "Clean increases in a row before they are fast (K; ours)."},
    {"byte_lock", "bytes", 8192, 0, 1e9, "An increase also waits until so much was sent since the last."},
    {"overrun_factor", "", 0.25, 0.001, 1,
     "What is left of the rate while more is sent without feedback than rate x RTT; 1: no such rule."},
    {"least_rate", "bit/s", 10e6, 1e3, 1e12, "No decrease goes below."},
};

Recipe prepare(const Parameters& v) {
  auto constants = std::make_shared<const BarreConstants>(BarreConstants{
      .decrease = v.at("decrease"),
      .slow_share = v.at("slow_share"),
      .reference_rtt = v.at("reference_rtt") * 1e9,
      .fast_share = v.at("fast_share"),
      .fast_after = static_cast<unsigned>(v.at("fast_after")),
      .byte_lock = v.at("byte_lock"),
      .overrun_factor = v.at("overrun_factor"),
      .least_rate = v.at("least_rate"),
  });
  return [constants](const PathFacts& path) { return std::make_unique<BarreController>(constants, path); };
}

}  // namespace

BarreController::BarreController(std::shared_ptr<const BarreConstants> constants, const PathFacts& path)
    : c_(std::move(constants)), path_(path), rate_(path_.bits_per_second()), rtt_(path_.base_rtt()) {}

Rate BarreController::rate() const {
  const double rate = overrun_ ? rate_ * c_->overrun_factor : rate_;
  return path_.at_most_line_rate(rate);
}

// The inflight monitor. A packet of slack: what was just handed to the port has not left it. The paper ends
// the cut with the next notification; here any feedback ends it, else a connection whose feedback came late
// for another reason would stay slow for good.
void BarreController::sent(Time, Bytes bytes, Bytes) {
  const double n = static_cast<double>(bytes);
  unheard_ += n;
  since_step_ += n;
  overrun_ = unheard_ > rate_ / 8e9 * std::max(rtt_, path_.base_rtt()) + path_.packet();
}

void BarreController::cnp(Time now) {
  unheard_ = 0;
  overrun_ = false;
  clean_ = 0;
  step_ = now;
  since_step_ = 0;
  rate_ = std::max(rate_ * c_->decrease, std::min(c_->least_rate, path_.bits_per_second()));
}

void BarreController::ack(const Ack& a) {
  unheard_ = 0;
  overrun_ = false;
  if (a.rtt > Duration(0)) {
    path_.measured(a.rtt);
    rtt_ = ns(a.rtt);
  }
  if (a.ecn_marked) {
    cnp(a.now);
  } else if (ns(a.now - step_) > rtt_ && since_step_ >= c_->byte_lock) {  // both, not either as in DCQCN
    step_ = a.now;
    since_step_ = 0;
    increase();
  }
}

void BarreController::increase() {
  const double line = path_.bits_per_second();
  const double share = clean_ >= c_->fast_after ? c_->fast_share : c_->slow_share * rtt_ / c_->reference_rtt;
  if (clean_ < c_->fast_after) ++clean_;
  rate_ = std::min(rate_ + line * std::min(share, 1.0), line);
}

Algorithm barre_algorithm() {
  return {
      "barre",
      "Many small cuts by congestion notifications, increases on the beat of the measured RTT (Barre, USENIX "
      "ATC 2025).",
      kParameters, prepare};
}

}  // namespace megascale
