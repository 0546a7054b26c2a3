#include "cc/swift.h"

#include <algorithm>

namespace megascale {
namespace {

constexpr Parameter kParameters[] = {
    {"base_target", "s", 25e-6, 0, 1,
     "The delay aimed at before hops and scaling; 0: the path's base RTT plus queue_target."},
    {"queue_target", "s", 6e-6, 0, 1, "The queueing aimed at where base_target is 0."},
    {"hop_target", "s", 1e-6, 0, 1, "Added for each switch on the way, where hops are known."},
    {"scaling_range", "s", 100e-6, 0, 1, "The most that a small window adds to the target."},
    {"scaling_least_window", "packets", 0.1, 1e-6, 1e6, "Windows up to this add all of it."},
    {"scaling_most_window", "packets", 256, 1e-6, 1e6, "Windows from this on add nothing."},
    {"increase", "packets", 1, 0, 1000, "What is added to the window in an RTT below the target (ai)."},
    {"decrease", "", 0.8, 0, 10, "How strongly delay above the target decreases (beta)."},
    {"most_decrease", "", 0.5, 0, 0.99, "The largest share that one decrease takes (max_mdf)."},
    {"host_target", "s", 100e-6, 1e-9, 1, "The delay aimed at in the receiver's host."},
    {"least_window", "packets", 0.001, 1e-6, 1, "No decrease goes below."},
    {"most_window", "", 2, 0.01, 1000, "The largest window, in products of line rate and target."},
    {"initial_window", "", 1, 1e-6, 1000, "The first window, in products of line rate and base RTT."},
    {"reset_after", "", 5, 1, 1000, "After so many timeouts in a row the window is the least."},
    {"pace_by_target", "", 0, 0, 1,
     "Below one packet, 1: a packet each target / window; 0: each RTT / window, as the paper does."},
};

Recipe prepare(const Parameters& v) {
  auto constants = std::make_shared<const SwiftConstants>(SwiftConstants{
      .base_target = v.at("base_target") * 1e9,
      .queue_target = v.at("queue_target") * 1e9,
      .hop_target = v.at("hop_target") * 1e9,
      .scaling = FlowScaling(v),
      .increase = v.at("increase"),
      .decrease = v.at("decrease"),
      .most_decrease = v.at("most_decrease"),
      .host = {.target = v.at("host_target") * 1e9,
               .increase = v.at("increase"),
               .decrease = v.at("decrease"),
               .most_decrease = v.at("most_decrease")},
      .least_window = v.at("least_window"),
      .most_window = v.at("most_window"),
      .initial_window = v.at("initial_window"),
      .reset_after = static_cast<unsigned>(v.at("reset_after")),
      .pace_by_target = v.at("pace_by_target") >= 0.5,
  });
  return [constants](const PathFacts& path) { return std::make_unique<SwiftController>(constants, path); };
}

}  // namespace

SwiftController::SwiftController(std::shared_ptr<const SwiftConstants> constants, const PathFacts& path)
    : c_(std::move(constants)),
      path_(path),
      fabric_(std::clamp(c_->initial_window * path_.bdp() / path_.packet(), c_->least_window, most())),
      rtt_(path_.base_rtt()) {}

double SwiftController::unscaled_target() const {
  return (c_->base_target > 0 ? c_->base_target : path_.base_rtt() + c_->queue_target) +
         hops_ * c_->hop_target;
}

double SwiftController::target() const { return unscaled_target() + c_->scaling.at(fabric_); }

double SwiftController::most() const {
  return std::max(c_->most_window * path_.bytes_per_ns() * unscaled_target() / path_.packet(), 1.0);
}

void SwiftController::ack(const Ack& a) {
  timeouts_ = 0;
  if (a.rtt <= Duration(0)) return;
  path_.measured(a.rtt);
  rtt_ = ns(a.rtt);
  hops_ = a.hops;
  const double packets = static_cast<double>(a.bytes) / path_.packet();
  const bool fabric_binds = fabric_ <= host_.size(), host_binds = host_.size() <= fabric_;
  host_.ack(a, packets, host_binds, c_->least_window, most(), c_->host);

  const double delay = rtt_ - std::clamp(ns(a.remote_hold), 0.0, rtt_), aim = target();
  if (delay >= aim) {
    decrease(a.now, std::max(1 - c_->decrease * (delay - aim) / delay, 1 - c_->most_decrease));
  } else if (fabric_binds) {
    fabric_ = std::min(fabric_ + c_->increase * packets / std::max(fabric_, 1.0), most());
  }
}

// At most once in an RTT: what was sent before the last decrease still tells of the old window.
void SwiftController::decrease(Time now, double factor) {
  if (decreased_ && ns(now - last_decrease_) < rtt_) return;
  fabric_ = std::max(fabric_ * factor, c_->least_window);
  last_decrease_ = now;
  decreased_ = true;
}

void SwiftController::loss(Time now, Bytes) {
  timeouts_ = 0;
  decrease(now, 1 - c_->most_decrease);
}

void SwiftController::timeout(Time now) {
  if (++timeouts_ < c_->reset_after) return decrease(now, 1 - c_->most_decrease);
  fabric_ = c_->least_window;
  last_decrease_ = now;
  decreased_ = true;
}

Rate SwiftController::rate() const {
  if (size() >= 1) return path_.line_rate();
  return paced(path_, size(), c_->pace_by_target ? target() : rtt_);
}

Algorithm swift_algorithm() {
  return {"swift", "A window steered by delay, with hop and flow scaling (Kumar et al., SIGCOMM 2020).",
          kParameters, prepare};
}

}  // namespace megascale
