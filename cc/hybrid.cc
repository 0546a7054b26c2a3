#include "cc/hybrid.h"

#include <algorithm>
#include <cmath>

namespace megascale {
namespace {

constexpr Parameter kParameters[] = {
    {"queue_target", "s", 6e-6, 1e-9, 1, "The queueing aimed at, above the base RTT."},
    {"scaling_range", "s", 24e-6, 0, 1, "The most that a small window adds to the target."},
    {"scaling_least_window", "packets", 0.1, 1e-6, 1e6, "Windows up to this add all of it."},
    {"scaling_most_window", "packets", 100, 1e-6, 1e6, "Windows from this on add nothing."},
    {"guard", "s", 100e-6, 0, 1, "Delay above the target that is not believed without a mark."},
    {"increase", "packets", 1, 0, 1000, "What is added to the window in an RTT below the target."},
    {"most_increase", "packets", 1, 1e-6, 1000, "The most that one acknowledged packet adds."},
    {"fast_after", "", 2, 0, 1e6, "Rounds without mark or delay before the increase grows, by one each."},
    {"fast_most", "", 8, 1, 1000, "The most that it grows; 1: it does not."},
    {"fair_increase", "", 1, 0, 10, "The share of the increase above the target without marks."},
    {"decrease", "", 0.8, 0, 10, "How strongly marked delay above the target decreases."},
    {"most_decrease", "", 0.5, 0, 0.99, "The largest share that one decrease takes, unless far off."},
    {"far_off", "", 6, 0, 1e9,
     "Marked delay of so many queue targets scales the window to target / delay at once; 0: never."},
    {"cnp_factor", "", 0.98, 0.1, 1, "What a notification leaves of the window when no fresh RTT is known."},
    {"host_target", "s", 100e-6, 1e-9, 1, "The delay aimed at in the receiver's host."},
    {"least_window", "packets", 0.5, 1e-6, 1, "No decrease goes below."},
    {"initial_window", "packets", 26, 1e-6, 1e6, "The first window; never more than most_window."},
    {"most_window", "", 6, 0.01, 1000,
     "The largest, in products of line rate and base RTT; queue_target comes on top."},
    {"rtt_reference", "s", 12e-6, 1e-9, 1, "The base RTT whose increase is `increase` (see rtt_fairness)."},
    {"reset_after", "", 5, 1, 1000, "After so many timeouts in a row the window is the least."},
    {"marks", "", 1, 0, 1, "0: marks are ignored and delay alone decides."},
    {"filter", "", 1, 0, 1, "0: unmarked delay is the last RTT, not the least of two rounds."},
    {"slow_start", "", 1, 0, 1, "0: the first window grows like any other."},
    {"used_window", "", 1, 0, 1, "0: a decrease begins with the window, not with what of it is used."},
    {"pace_by_target", "", 1, 0, 1, "Below one packet, 1: a packet each target / window; 0: RTT / window."},
    {"share", "", 1, 0, 1, "0: one mark decreases as much as many."},
    {"rtt_fairness", "", 0.7, 0, 1, "The increase grows with this power of the base RTT."},
};

Recipe prepare(const Parameters& v) {
  auto constants = std::make_shared<const HybridConstants>(HybridConstants{
      .queue_target = v.at("queue_target") * 1e9,
      .scaling = FlowScaling(v),
      .guard = v.at("guard") * 1e9,
      .increase = v.at("increase"),
      .most_increase = v.at("most_increase"),
      .fast_after = static_cast<unsigned>(v.at("fast_after")),
      .fast_most = v.at("fast_most"),
      .fair_increase = v.at("fair_increase"),
      .decrease = v.at("decrease"),
      .most_decrease = v.at("most_decrease"),
      .cnp_factor = v.at("cnp_factor"),
      .far_off = v.at("far_off"),
      .host = {.target = v.at("host_target") * 1e9,
               .increase = v.at("increase"),
               .decrease = v.at("decrease"),
               .most_decrease = v.at("most_decrease")},
      .least_window = v.at("least_window"),
      .initial_window = v.at("initial_window"),
      .most_window = v.at("most_window"),
      .rtt_reference = v.at("rtt_reference") * 1e9,
      .reset_after = static_cast<unsigned>(v.at("reset_after")),
      .rtt_fairness = v.at("rtt_fairness"),
      .marks = v.at("marks") >= 0.5,
      .share = v.at("share") >= 0.5,
      .filter = v.at("filter") >= 0.5,
      .slow_start = v.at("slow_start") >= 0.5,
      .used_window = v.at("used_window") >= 0.5,
      .pace_by_target = v.at("pace_by_target") >= 0.5,
  });
  return [constants](const PathFacts& path) { return std::make_unique<HybridController>(constants, path); };
}

}  // namespace

HybridController::HybridController(std::shared_ptr<const HybridConstants> constants, const PathFacts& path)
    : c_(std::move(constants)),
      path_(path),
      fabric_(std::clamp(c_->initial_window, c_->least_window, most())),
      rtt_(path_.base_rtt()),
      starting_(c_->slow_start) {
  end_round(0);
  clean_ = 0;
}

double HybridController::most() const {
  return std::max((c_->most_window * path_.bdp() + c_->queue_target * path_.bytes_per_ns()) / path_.packet(),
                  1.0);
}

double HybridController::target() const {
  return path_.base_rtt() + c_->queue_target + c_->scaling.at(fabric_);
}

double HybridController::step() const {
  const double fast =
      clean_ < c_->fast_after ? 1 : std::min(static_cast<double>(clean_ - c_->fast_after) + 2, c_->fast_most);
  return c_->increase * rtt_factor_ * fast;
}

// How much of the window is in use: a connection that shares its NIC with a hundred others has a packet in
// flight now and then, however large its window.
double HybridController::used() const {
  const double most = static_cast<double>(std::max(inflight_now_, inflight_before_)) / path_.packet();
  const double aim = path_.base_rtt() + c_->queue_target;
  return most > 1 ? most : aim / std::max(gap_, aim);
}

void HybridController::sent(Time now, Bytes, Bytes inflight) {
  sent_to_ = acked_ + inflight;
  inflight_now_ = std::max(inflight_now_, inflight);
  gap_ = ns(now - sent_);
  sent_ = now;
  rounds_.sent(inflight);
}

void HybridController::ack(const Ack& a) {
  timeouts_ = 0;
  acked_ = std::max(acked_, a.sequence);
  if (a.rtt <= Duration(0)) return;
  path_.measured(a.rtt);
  begun_ = true;
  rtt_ = ns(a.rtt);
  heard_ = a.now;
  const double packets = static_cast<double>(a.bytes) / path_.packet();
  covered_ = std::max(packets, covered_ + (packets - covered_) / 64);
  const bool fabric_binds = fabric_ <= host_.size(), host_binds = host_.size() <= fabric_;
  host_.ack(a, packets, host_binds, c_->least_window, most(), c_->host);

  const double delay = rtt_ - std::clamp(ns(a.remote_hold), 0.0, rtt_);
  const bool marked = c_->marks && (a.ecn_marked || notified_);
  notified_ = false;
  acked_now_ += static_cast<double>(a.bytes);
  if (marked) marked_now_ += static_cast<double>(a.bytes);
  least_now_ = std::min(least_now_, delay);
  const double aim = target();
  steer(packets, delay, aim, marked, fabric_binds);
  if (rounds_.acked(a.sequence)) end_round(aim);
}

void HybridController::end_round(double target) {
  const bool clean = marked_now_ <= 0 && std::min(least_now_, least_before_) < target + c_->guard;
  clean_ = clean ? clean_ + 1 : 0;
  marked_before_ = marked_now_;
  acked_before_ = acked_now_;
  marked_now_ = acked_now_ = 0;
  least_before_ = least_now_;
  least_now_ = kNoDelay;
  inflight_before_ = inflight_now_;
  inflight_now_ = sent_to_ > acked_ ? sent_to_ - acked_ : 0;
  rtt_factor_ = std::clamp(std::pow(path_.base_rtt() / c_->rtt_reference, c_->rtt_fairness), 0.25, 4.0);
}

// The heart: what a mark and a delay mean together. Delay counts by the least of a round, which jitter of
// hosts and of the way back does not raise.
void HybridController::steer(double packets, double delay, double target, bool marked, bool binds) {
  if (marked) {
    const double sure = c_->filter ? least_now_ : delay;
    if (delay >= target) starting_ = false;
    if (sure >= target) decrease(1 - marked_share() * (1 - factor(sure, target)), far(sure));
    else if (binds) grow(1, packets);
    return;
  }
  const double filtered = c_->filter ? std::min(least_now_, least_before_) : delay;
  const double guard = c_->marks ? c_->guard : 0;
  if (filtered >= target + guard) decrease(factor(filtered, target), far(filtered));
  else if (binds) grow(filtered < target ? 1 : c_->fair_increase, packets);
}

void HybridController::grow(double share, double packets) {
  if (acked_ < decreasing_to_) return;  // what comes back was sent before the decrease
  if (starting_) {
    fabric_ += packets;
  } else {
    fabric_ += share * packets * std::min(step() / std::max(fabric_, 1.0), c_->most_increase);
  }
  fabric_ = std::min(fabric_, most());
}

// Of what was acknowledged in this round and the last. A queue that marks few packets is short, however long
// they took: the rest of their delay is not its doing.
double HybridController::marked_share() const {
  const double all = acked_now_ + acked_before_;
  return c_->share && all > 0 ? (marked_now_ + marked_before_) / all : 1;
}

bool HybridController::far(double delay) const {
  return c_->far_off > 0 && delay > path_.base_rtt() + c_->far_off * c_->queue_target;
}

// A little above the target a decrease is careful. Far above it all who share the queue have so much too
// much, and the window that would just meet the target is known.
double HybridController::factor(double delay, double target) const {
  const double careful = std::max(1 - c_->decrease * (delay - target) / delay, 1 - c_->most_decrease);
  return far(delay) ? std::min(careful, target / delay) : careful;
}

// What was sent before a decrease is heard of for a round trip after it. Delay that is larger still makes the
// decrease deeper, but from the same beginning: the strongest counts, not all of them together.
void HybridController::decrease(double factor, bool far) {
  starting_ = false;
  if (acked_ >= decreasing_to_) {
    before_window_ = fabric_;
    before_decrease_ = c_->used_window ? std::min(fabric_, used()) : fabric_;
    decreasing_to_ = 0;
  }
  const double reduced =
      std::max(before_decrease_ * factor, far ? c_->least_window : std::min(before_window_, 1.0));
  if (reduced >= fabric_) return;
  fabric_ = reduced;
  decreasing_to_ = std::max(sent_to_, acked_ + 1);
}

// A notification between acknowledgements. Where they come often it is a mark on the next one; without a
// fresh RTT many notifications, each a little, say how much.
void HybridController::cnp(Time now) {
  if (!c_->marks) return;
  if (begun_ && ns(now - heard_) < 2 * rtt_) {
    notified_ = true;
    return;
  }
  starting_ = false;
  clean_ = 0;
  fabric_ = std::max(fabric_ * c_->cnp_factor, c_->least_window);
}

void HybridController::loss(Time, Bytes) {
  timeouts_ = 0;
  decrease(1 - c_->most_decrease, true);
}

// Nothing is known of the path any more: it is found anew, from little.
void HybridController::timeout(Time) {
  if (++timeouts_ < c_->reset_after) {
    fabric_ = std::max(fabric_ * (1 - c_->most_decrease), c_->least_window);
  } else {
    fabric_ = c_->least_window;
  }
  decreasing_to_ = 0;
  starting_ = c_->slow_start;
}

// A window that no acknowledgement would open again is no window: under one packet, and under two
// acknowledgements' worth where one covers many packets, the rate holds it.
double HybridController::paced_below() const { return covered_ > 1.5 ? 2 * covered_ : 1; }

Bytes HybridController::window() const {
  const bool sparse = covered_ > 1.5;
  return path_.bytes(sparse ? std::max(size(), paced_below()) : size());
}

Rate HybridController::rate() const {
  if (size() >= paced_below()) return path_.line_rate();
  return paced(path_, size(), c_->pace_by_target ? target() : rtt_);
}

Algorithm hybrid_algorithm() {
  return {"hybrid", "Delay decides how much, marks decide whether: for Ethernet with ECN (ours).",
          kParameters, prepare};
}

}  // namespace megascale
