#include "cc/timely.h"

#include <algorithm>

namespace megascale {
namespace {

constexpr Parameter kParameters[] = {
    {"smoothing", "", 0.875, 0, 1, "The share of the newest difference of RTTs in their mean (alpha)."},
    {"decrease", "", 0.8, 0, 1, "How strongly a rising RTT decreases the rate (beta)."},
    {"low", "s", 50e-6, 1e-9, 1, "Below this RTT the rate always rises."},
    {"high", "s", 500e-6, 1e-9, 1, "Above this RTT it always falls."},
    {"least_rtt", "s", 20e-6, 1e-9, 1, "What differences of RTTs are divided by."},
    {"additive_rate", "bit/s", 10e6, 0, 1e12, "One step up (delta)."},
    {"rates_at", "bit/s", 10e9, 0, 1e15,
     "The line rate for which additive_rate is given, with which it grows; 0: it does not."},
    {"hyper_after", "", 5, 1, 1000, "After so many steps with a falling RTT the steps are larger."},
    {"hyper_factor", "", 5, 1, 1000, "How much larger (N)."},
    {"segment", "bytes", 16384, 64, 1e9, "The rate is reconsidered once for so many acknowledged bytes."},
    {"least_rate", "bit/s", 10e6, 1e3, 1e12, "No decrease goes below."},
    {"patched", "", 0, 0, 1, "1: the variant of CoNEXT 2016."},
};

Recipe prepare(const Parameters& v) {
  auto constants = std::make_shared<const TimelyConstants>(TimelyConstants{
      .smoothing = v.at("smoothing"),
      .decrease = v.at("decrease"),
      .low = v.at("low") * 1e9,
      .high = v.at("high") * 1e9,
      .least_rtt = v.at("least_rtt") * 1e9,
      .additive_rate = v.at("additive_rate"),
      .rates_at = v.at("rates_at"),
      .least_rate = v.at("least_rate"),
      .hyper_after = static_cast<unsigned>(v.at("hyper_after")),
      .hyper_factor = v.at("hyper_factor"),
      .segment = v.at("segment"),
      .patched = v.at("patched") >= 0.5,
  });
  return [constants](const PathFacts& path) { return std::make_unique<TimelyController>(constants, path); };
}

}  // namespace

TimelyController::TimelyController(std::shared_ptr<const TimelyConstants> constants, const PathFacts& path)
    : c_(std::move(constants)),
      path_(path),
      step_(c_->additive_rate * (c_->rates_at > 0 ? path_.bits_per_second() / c_->rates_at : 1)),
      rate_(path_.bits_per_second()) {}

Rate TimelyController::rate() const { return path_.at_most_line_rate(rate_); }

void TimelyController::ack(const Ack& a) {
  acked_ += static_cast<double>(a.bytes);
  if (a.rtt <= Duration(0) || acked_ < c_->segment) return;
  acked_ = 0;
  const double rtt = ns(a.rtt);
  if (last_rtt_ > 0) {
    difference_ += c_->smoothing * (rtt - last_rtt_ - difference_);
    gradient_ = difference_ / c_->least_rtt;
  }
  last_rtt_ = rtt;
  if (rtt < c_->low) {
    rate_ += step_;
    falling_ = 0;
  } else if (rtt > c_->high) {
    rate_ *= 1 - c_->decrease * (1 - c_->high / rtt);
    falling_ = 0;
  } else {
    rate_ = c_->patched ? patched(rtt) : original();
  }
  rate_ = std::clamp(rate_, std::min(c_->least_rate, path_.bits_per_second()), path_.bits_per_second());
}

double TimelyController::original() {
  if (gradient_ <= 0) {
    if (falling_ < c_->hyper_after) ++falling_;
    return rate_ + step_ * (falling_ >= c_->hyper_after ? c_->hyper_factor : 1);
  }
  falling_ = 0;
  return rate_ * (1 - std::min(c_->decrease * gradient_, 1.0));
}

// A weight that goes from 0 to 1 with the gradient takes the place of its sign, and the distance of the RTT
// from `low` that of its size.
double TimelyController::patched(double rtt) const {
  const double weight = std::clamp(2 * gradient_ + 0.5, 0.0, 1.0);
  const double error = (rtt - c_->low) / c_->low;
  return step_ * (1 - weight) + rate_ * (1 - std::min(c_->decrease * weight * error, 1.0));
}

void TimelyController::timeout(Time) {
  rate_ = std::max(rate_ / 2, std::min(c_->least_rate, path_.bits_per_second()));
  falling_ = 0;
}

Algorithm timely_algorithm() {
  return {"timely",
          "Rate control by the gradient of the RTT (Mittal et al., SIGCOMM 2015), and patched (CoNEXT 2016).",
          kParameters, prepare};
}

}  // namespace megascale
