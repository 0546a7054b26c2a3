#include "cc/nscc.h"

#include <algorithm>

namespace megascale {
namespace {

constexpr Parameter kParameters[] = {
    {"target_ratio", "", 1, 0.01, 100,
     "The queueing delay aimed at, in base RTTs: 1 without packet trimming, 0.75 with it."},
    {"proportional", "packets", 4, 0, 1000,
     "Growth in an RTT, for each 12 us that the delay is below the target."},
    {"fair", "packets", 5, 0, 1000, "Growth above the target while nothing is marked, in an RTT."},
    {"eta", "packets", 0.15, 0, 100, "Added once in a base RTT whatever was seen."},
    {"fast", "", 0.25, 0, 10, "Growth for each acknowledged byte when a whole window met no queue."},
    {"fast_below", "s", 1e-6, 0, 1, "Less delay than this is no queue."},
    {"decrease", "", 0.8, 0, 10, "How strongly marked delay above the target decreases (gamma)."},
    {"most_decrease", "", 0.5, 0, 0.99, "The largest share that one decrease takes."},
    {"smoothing", "", 0.0125, 1e-6, 1, "The share of the newest delay in the mean."},
    {"most_window", "", 1.5, 0.01, 1000, "First and largest window, in products of line rate and base RTT."},
    {"adapt_delay", "", 4, 0, 1e6, "A delay above this many targets sets the window to what arrived."},
    {"adapt_share", "", 0.125, 0, 1, "... if that is under this share of the largest window (QuickAdapt)."},
    {"adjust_packets", "packets", 8, 0, 1000, "Growth is applied once for so many acknowledged packets."},
};

Recipe prepare(const Parameters& v) {
  auto constants = std::make_shared<const NsccConstants>(NsccConstants{
      .target_ratio = v.at("target_ratio"),
      .proportional = v.at("proportional"),
      .fair = v.at("fair"),
      .eta = v.at("eta"),
      .fast = v.at("fast"),
      .decrease = v.at("decrease"),
      .most_decrease = v.at("most_decrease"),
      .fast_below = v.at("fast_below") * 1e9,
      .smoothing = v.at("smoothing"),
      .most_window = v.at("most_window"),
      .adapt_delay = v.at("adapt_delay"),
      .adapt_share = v.at("adapt_share"),
      .adjust_packets = v.at("adjust_packets"),
  });
  return [constants](const PathFacts& path) { return std::make_unique<NsccController>(constants, path); };
}

}  // namespace

NsccController::NsccController(std::shared_ptr<const NsccConstants> constants, const PathFacts& path)
    : c_(std::move(constants)), path_(path), window_(most()) {}

void NsccController::sent(Time, Bytes, Bytes inflight) { sent_to_ = acked_ + inflight; }

void NsccController::ack(const Ack& a) {
  acked_ = std::max(acked_, a.sequence);
  if (a.rtt <= Duration(0)) return;
  path_.measured(a.rtt);
  if (!begun_) {
    applied_ = looked_ = a.now;
    begun_ = true;
  }
  const bool marked = a.ecn_marked || marked_;
  marked_ = false;
  const double bytes = static_cast<double>(a.bytes), delay = std::max(ns(a.rtt) - path_.base_rtt(), 0.0);
  mean_delay_ += c_->smoothing * (delay - mean_delay_);
  achieved_ += bytes;
  if (adapt(a, delay) || a.sequence < ignore_until_) return;
  if (marked) {
    if (delay >= target()) decrease(a.now);
  } else if (delay >= target()) {
    pending_ += c_->fair * path_.packet() * scale() * bytes;
  } else {
    grow_proportionally(bytes, delay);
  }
  since_apply_ += bytes;
  if (since_apply_ > c_->adjust_packets * path_.packet() || ns(a.now - applied_) > path_.base_rtt()) {
    apply(a.now);
  }
  clamp();
}

// QuickAdapt: far above the target a window can only be guessed at; what arrived in the meantime is the best
// guess. Feedback on what was sent before says nothing about it.
bool NsccController::adapt(const Ack& a, double delay) {
  if (ns(a.now - looked_) < path_.base_rtt() + target()) return false;
  const double achieved = achieved_;
  const bool far_off = lost_ || delay > c_->adapt_delay * target();
  looked_ = a.now;
  achieved_ = 0;
  lost_ = false;
  if (!far_off || achieved >= most() * c_->adapt_share || a.sequence < ignore_until_) return false;
  window_ = achieved;
  ignore_until_ = sent_to_;
  pending_ = since_apply_ = fast_bytes_ = 0;
  clamp();
  return true;
}

void NsccController::grow_proportionally(double bytes, double delay) {
  if (delay < c_->fast_below) {
    fast_bytes_ += bytes;
    if (fast_bytes_ > window_) {
      window_ += bytes * c_->fast * scale();
      return;
    }
  } else {
    fast_bytes_ = 0;
  }
  pending_ += c_->proportional * path_.packet() * scale() * bytes * (target() - delay) / kReferenceRtt;
}

void NsccController::decrease(Time now) {
  fast_bytes_ = 0;
  if (mean_delay_ <= target() || ns(now - decreased_) < path_.base_rtt()) return;
  window_ *= std::max(1 - c_->decrease * (mean_delay_ - target()) / mean_delay_, 1 - c_->most_decrease);
  decreased_ = now;
}

void NsccController::apply(Time now) {
  window_ += pending_ / window_;
  if (ns(now - applied_) >= path_.base_rtt()) {
    window_ += c_->eta * path_.packet() * scale();
    applied_ = now;
  }
  pending_ = since_apply_ = 0;
}

void NsccController::timeout(Time) {
  lost_ = true;
  window_ = path_.packet();
  pending_ = since_apply_ = fast_bytes_ = 0;
}

void NsccController::clamp() { window_ = std::clamp(window_, path_.packet(), most()); }

Algorithm nscc_algorithm() {
  return {"nscc", "Ultra Ethernet's window by marks and delay in four quadrants (SMaRTT; UEC's simulator).",
          kParameters, prepare};
}

}  // namespace megascale
