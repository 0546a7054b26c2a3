#include "cc/dcqcn.h"

#include <algorithm>
#include <cmath>

namespace megascale {
namespace {

// The defaults are those of the paper (its section 5.2 and table 14), at 40 Gb/s.
constexpr Parameter kParameters[] = {
    {"g", "", 1.0 / 256, 1e-6, 1, "The gain with which alpha follows notifications."},
    {"initial_alpha", "", 1, 0, 1, "Alpha before the first notification."},
    {"alpha_timer", "s", 55e-6, 1e-7, 1, "Alpha decays each time that passes without a notification."},
    {"cut_gap", "s", 50e-6, 0, 1,
     "The least time between two cuts; with nic_order the beat on which cuts happen."},
    {"increase_timer", "s", 55e-6, 1e-7, 1, "Time between two steps up."},
    {"byte_counter", "bytes", 10e6, 0, 1e15, "Bytes sent between two steps up; 0: only time counts."},
    {"fast_recovery", "", 5, 0, 1000, "Steps that halve the way back before the target itself grows (F)."},
    {"additive_rate", "bit/s", 40e6, 0, 1e12, "What a later step adds to the target (R_AI)."},
    {"hyper_rate", "bit/s", 200e6, 0, 1e12, "What it adds when timer and byte counter are past F (R_HAI)."},
    {"rates_at", "bit/s", 0, 0, 1e15,
     "The line rate for which additive_rate and hyper_rate are given, with which they grow; 0: they do not."},
    {"least_rate", "bit/s", 1e6, 1e3, 1e12, "No cut goes below."},
    {"least_cut_factor", "", 0.5, 0, 1, "A cut leaves at least this share of the rate."},
    {"clamp_target", "", 1, 0, 1,
     "1: each cut makes the rate before it the target; 0: only after a step up."},
    {"nic_order", "", 0, 0, 1, "1: cuts and alpha on timers' beats, as NICs do; 0: as the paper does."},
};

Recipe prepare(const Parameters& v) {
  auto constants = std::make_shared<const DcqcnConstants>(DcqcnConstants{
      .g = v.at("g"),
      .initial_alpha = v.at("initial_alpha"),
      .alpha_timer = v.at("alpha_timer") * 1e9,
      .cut_gap = v.at("cut_gap") * 1e9,
      .increase_timer = v.at("increase_timer") * 1e9,
      .byte_counter = v.at("byte_counter"),
      .fast_recovery = static_cast<unsigned>(v.at("fast_recovery")),
      .additive_rate = v.at("additive_rate"),
      .hyper_rate = v.at("hyper_rate"),
      .rates_at = v.at("rates_at"),
      .least_rate = v.at("least_rate"),
      .least_cut_factor = v.at("least_cut_factor"),
      .clamp_target = v.at("clamp_target") >= 0.5,
      .nic_order = v.at("nic_order") >= 0.5,
  });
  return [constants](const PathFacts& path) { return std::make_unique<DcqcnController>(constants, path); };
}

}  // namespace

DcqcnController::DcqcnController(std::shared_ptr<const DcqcnConstants> constants, const PathFacts& path)
    : c_(std::move(constants)),
      path_(path),
      scale_(c_->rates_at > 0 ? path_.bits_per_second() / c_->rates_at : 1),
      current_(path_.bits_per_second()),
      target_(current_),
      alpha_(c_->initial_alpha) {}

Rate DcqcnController::rate() const { return path_.at_most_line_rate(current_); }

void DcqcnController::sent(Time, Bytes bytes, Bytes) {
  if (c_->nic_order || c_->byte_counter <= 0 || increase_at_ == kNever) return;
  bytes_ += static_cast<double>(bytes);
  if (bytes_ < c_->byte_counter) return;
  bytes_ -= c_->byte_counter;
  increase(byte_stage_);
}

void DcqcnController::ack(const Ack& a) {
  if (a.ecn_marked) cnp(a.now);
}

void DcqcnController::timeout(Time now) { cnp(now); }

void DcqcnController::cnp(Time now) {
  if (!c_->nic_order) {
    if (cut_before_ && ns(now - last_cut_) < c_->cut_gap) return;
    bring_alpha_to(now);
    cut(now);
    alpha_ = (1 - c_->g) * alpha_ + c_->g;
    alpha_at_ = now;
    return;
  }
  if (!cut_before_ && cut_at_ == kNever) {  // the beats begin with the first notification
    alpha_at_ = last_cut_ = now;
    alpha_ = c_->initial_alpha;
  }
  bring_alpha_to(now);
  notified_ = true;
  if (cut_at_ != kNever) return;
  const double beats = c_->cut_gap > 0 ? std::floor(ns(now - last_cut_) / c_->cut_gap) + 1 : 0;
  cut_at_ = c_->cut_gap > 0 ? last_cut_ + from_ns(beats * c_->cut_gap) : now + Duration(1);
}

// All the periods of alpha's timer that have passed at once. In a NIC the first of them may hold a
// notification; the paper's timer only runs while there is none.
void DcqcnController::bring_alpha_to(Time now) {
  double periods = std::floor(std::max(ns(now - alpha_at_), 0.0) / c_->alpha_timer);
  if (!cut_before_ && !c_->nic_order) periods = 0;
  if (periods < 1) return;
  alpha_at_ += from_ns(periods * c_->alpha_timer);
  if (notified_) {
    alpha_ = (1 - c_->g) * alpha_ + c_->g;
    notified_ = false;
    --periods;
  }
  if (periods > 0) alpha_ *= std::pow(1 - c_->g, periods);
}

void DcqcnController::cut(Time now) {
  if (c_->clamp_target || time_stage_ > 0) target_ = current_;
  current_ = std::max(current_ * std::max(1 - alpha_ / 2, c_->least_cut_factor), c_->least_rate);
  target_ = std::max(target_, current_);
  time_stage_ = byte_stage_ = 0;
  bytes_ = 0;
  last_cut_ = now;
  cut_before_ = true;
  increase_at_ = now + from_ns(c_->increase_timer);
}

void DcqcnController::increase(unsigned& stage) {
  const unsigned most = c_->nic_order ? time_stage_ : std::max(time_stage_, byte_stage_);
  const unsigned least = c_->nic_order ? time_stage_ : std::min(time_stage_, byte_stage_);
  if (least > c_->fast_recovery) {
    target_ += scaled(c_->hyper_rate) * (c_->nic_order ? 1 : least - c_->fast_recovery);
  } else if (most >= c_->fast_recovery) {
    target_ += scaled(c_->additive_rate);
  }
  ++stage;
  const double line = path_.bits_per_second();
  target_ = std::min(target_, line);
  current_ = (current_ + target_) / 2;
  // Halving never arrives; a thousandth below the line is there, and its timers rest.
  if (current_ > line * 0.999 && target_ >= line) {
    current_ = line;
    increase_at_ = kNever;
  }
}

void DcqcnController::tick(Time now) {
  if (now >= cut_at_) {
    bring_alpha_to(now);
    cut_at_ = kNever;
    cut(now);
  } else if (now >= increase_at_) {
    increase_at_ = now + from_ns(c_->increase_timer);
    increase(time_stage_);
  }
}

Algorithm dcqcn_algorithm() {
  return {"dcqcn",
          "Rate control by congestion notification packets (Zhu et al., SIGCOMM 2015), in the paper's order "
          "or in that of NICs.",
          kParameters, prepare};
}

}  // namespace megascale
