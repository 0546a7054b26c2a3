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
    {"guard", "s", 16e-6, 0, 1,
     "Delay above the target that is not believed without a mark: kmax / link rate, where all is marked."},
    {"increase", "packets", 1, 0, 1000, "What is added to the window in an RTT below the target."},
    {"fast_after", "", 5, 0, 1e6, "Rounds without mark or delay before the increase grows, by one each."},
    {"fast_most", "", 8, 1, 1000, "The most that it grows; 1: it does not."},
    {"fair_increase", "", 0.25, 0, 10, "The share of the increase above the target without marks."},
    {"decrease", "", 0.8, 0, 10, "How strongly marked delay above the target decreases."},
    {"most_decrease", "", 0.5, 0, 0.99, "The largest share that one decrease takes."},
    {"cnp_factor", "", 0.98, 0.1, 1, "What a notification leaves of the window when no fresh RTT is known."},
    {"host_target", "s", 100e-6, 1e-9, 1, "The delay aimed at in the receiver's host."},
    {"least_window", "packets", 0.001, 1e-6, 1, "No decrease goes below."},
    {"initial_window", "", 0.25, 1e-6, 1000, "The first window, in products of line rate and base RTT."},
    {"most_window", "", 1.5, 0.01, 1000,
     "The largest, in products of line rate and base RTT; queue_target comes on top."},
    {"rtt_reference", "s", 12e-6, 1e-9, 1, "The base RTT whose increase is `increase` (see rtt_fairness)."},
    {"adapt_delay", "", 4, 0, 1e9,
     "Marked delay of so many queue targets sets the window to what arrived; 0: never."},
    {"reset_after", "", 5, 1, 1000, "After so many timeouts in a row the window is the least."},
    {"marks", "", 1, 0, 1, "0: marks are ignored and delay alone decides."},
    {"filter", "", 1, 0, 1, "0: unmarked delay is the last RTT, not the least of two rounds."},
    {"hold", "", 1, 0, 1, "0: a mark without delay is no reason not to grow."},
    {"slow_start", "", 1, 0, 1, "0: the first window grows like any other."},
    {"pace_by_target", "", 1, 0, 1, "Below one packet, 1: a packet each target / window; 0: RTT / window."},
    {"rtt_fairness", "", 1, 0, 1, "1: the increase grows with the root of the base RTT."},
};

Recipe prepare(const Parameters& v) {
  const double least = v.at("scaling_least_window");
  const double most = std::max(v.at("scaling_most_window"), least * 1.001);
  const double range = v.at("scaling_range") * 1e9;
  const double a = range / (1 / std::sqrt(least) - 1 / std::sqrt(most));
  auto constants = std::make_shared<const HybridConstants>(HybridConstants{
      .queue_target = v.at("queue_target") * 1e9,
      .scaling_range = range,
      .scaling_a = a,
      .scaling_b = -a / std::sqrt(most),
      .guard = v.at("guard") * 1e9,
      .increase = v.at("increase"),
      .fast_after = static_cast<unsigned>(v.at("fast_after")),
      .fast_most = v.at("fast_most"),
      .fair_increase = v.at("fair_increase"),
      .decrease = v.at("decrease"),
      .most_decrease = v.at("most_decrease"),
      .cnp_factor = v.at("cnp_factor"),
      .host = {.target = v.at("host_target") * 1e9,
               .increase = v.at("increase"),
               .decrease = v.at("decrease"),
               .most_decrease = v.at("most_decrease")},
      .least_window = v.at("least_window"),
      .initial_window = v.at("initial_window"),
      .most_window = v.at("most_window"),
      .rtt_reference = v.at("rtt_reference") * 1e9,
      .adapt_delay = v.at("adapt_delay"),
      .reset_after = static_cast<unsigned>(v.at("reset_after")),
      .marks = v.at("marks") >= 0.5,
      .filter = v.at("filter") >= 0.5,
      .hold = v.at("hold") >= 0.5,
      .slow_start = v.at("slow_start") >= 0.5,
      .pace_by_target = v.at("pace_by_target") >= 0.5,
      .rtt_fairness = v.at("rtt_fairness") >= 0.5,
  });
  return [constants](const PathFacts& path) { return std::make_unique<HybridController>(constants, path); };
}

}  // namespace

HybridController::HybridController(std::shared_ptr<const HybridConstants> constants, const PathFacts& path)
    : c_(std::move(constants)),
      path_(path),
      fabric_(std::clamp(c_->initial_window * path_.bdp() / path_.packet(), 1.0, most())),
      host_(most()),
      rtt_(path_.base_rtt()),
      starting_(c_->slow_start) {}

double HybridController::most() const {
  return std::max((c_->most_window * path_.bdp() + c_->queue_target * path_.bytes_per_ns()) / path_.packet(),
                  1.0);
}

double HybridController::target() const {
  const double scaling = c_->scaling_a / std::sqrt(fabric_) + c_->scaling_b;
  return path_.base_rtt() + c_->queue_target + std::clamp(scaling, 0.0, c_->scaling_range);
}

double HybridController::step() const {
  const double fair =
      c_->rtt_fairness ? std::clamp(std::sqrt(path_.base_rtt() / c_->rtt_reference), 0.25, 4.0) : 1;
  const double fast =
      clean_ < c_->fast_after ? 1 : std::min(static_cast<double>(clean_ - c_->fast_after) + 2, c_->fast_most);
  return c_->increase * fair * fast;
}

void HybridController::sent(Time, Bytes, Bytes inflight) {
  sent_to_ = acked_ + inflight;
  rounds_.sent(inflight);
}

void HybridController::ack(const Ack& a) {
  timeouts_ = 0;
  acked_ = std::max(acked_, a.sequence);
  if (a.rtt <= Duration(0)) return;
  path_.measured(a.rtt);
  if (!begun_) looked_ = a.now;
  begun_ = true;
  rtt_ = ns(a.rtt);
  heard_ = a.now;
  const double packets = static_cast<double>(a.bytes) / path_.packet();
  const bool fabric_binds = fabric_ <= host_.size(), host_binds = host_.size() <= fabric_;
  host_.ack(a, packets, host_binds, c_->least_window, c_->host);

  const double delay = rtt_ - std::clamp(ns(a.remote_hold), 0.0, rtt_);
  const bool marked = c_->marks && (a.ecn_marked || notified_);
  notified_ = false;
  marked_round_ |= marked;
  least_now_ = std::min(least_now_, delay);
  const double aim = target();
  if (!adapt(a, delay, marked)) steer(a.now, packets, delay, aim, marked, fabric_binds);
  if (rounds_.acked(a.sequence)) end_round(aim);
}

void HybridController::end_round(double target) {
  const bool clean = !marked_round_ && std::min(least_now_, least_before_) < target;
  clean_ = clean ? clean_ + 1 : 0;
  marked_round_ = false;
  least_before_ = least_now_;
  least_now_ = kNoDelay;
}

// The heart: five cases of mark and delay.
void HybridController::steer(Time now, double packets, double delay, double target, bool marked, bool binds) {
  if (acked_ < ignore_until_) return;
  if (marked) {
    if (delay >= target) {
      starting_ = false;
      decrease_by(now, delay, target);
    } else if (!c_->hold && binds) {
      grow(1, packets);
    }
    return;
  }
  const double filtered = c_->filter ? std::min(least_now_, least_before_) : delay;
  const double guard = c_->marks ? c_->guard : 0;
  if (filtered >= target + guard) {
    starting_ = false;
    decrease_by(now, filtered, target);
  } else if (binds) {
    grow(filtered < target ? 1 : c_->fair_increase, packets);
  }
}

void HybridController::grow(double share, double packets) {
  if (starting_) {
    fabric_ += packets;
  } else {
    fabric_ += share * step() * packets / std::max(fabric_, 1.0);
  }
  fabric_ = std::min(fabric_, most());
}

// Far above the target the window can only be guessed at; what arrived meanwhile is the best guess. What was
// sent before says nothing about it.
bool HybridController::adapt(const Ack& a, double delay, bool marked) {
  achieved_ += static_cast<double>(a.bytes);
  const double aim = path_.base_rtt() + c_->queue_target, passed = ns(a.now - looked_);
  if (passed < aim) return false;
  const double arrived = achieved_ * aim / passed / path_.packet();
  achieved_ = 0;
  looked_ = a.now;
  const bool far_off = delay > path_.base_rtt() + c_->adapt_delay * c_->queue_target;
  if (c_->adapt_delay <= 0 || !far_off || !marked || acked_ < ignore_until_) return false;
  if (arrived >= fabric_) return false;
  fabric_ = std::max(arrived, c_->least_window);
  starting_ = false;
  ignore_until_ = sent_to_;
  last_decrease_ = a.now;
  decreased_ = true;
  return true;
}

void HybridController::decrease_by(Time now, double delay, double target) {
  decrease(now, std::max(1 - c_->decrease * (delay - target) / delay, 1 - c_->most_decrease));
}

// At most once in an RTT: what was sent before the last decrease still tells of the old window.
void HybridController::decrease(Time now, double factor) {
  if (decreased_ && ns(now - last_decrease_) < rtt_) return;
  fabric_ = std::max(fabric_ * factor, c_->least_window);
  last_decrease_ = now;
  decreased_ = true;
}

// A notification between acknowledgements. With a fresh RTT it is a mark with that delay; without one many of
// them, each a little, say how much.
void HybridController::cnp(Time now) {
  if (!c_->marks) return;
  marked_round_ = true;
  clean_ = 0;
  if (begun_ && ns(now - heard_) < 2 * rtt_) {
    notified_ = true;
    steer(now, 0, rtt_, target(), true, false);
  } else {
    starting_ = false;
    fabric_ = std::max(fabric_ * c_->cnp_factor, c_->least_window);
  }
}

void HybridController::loss(Time now, Bytes) {
  timeouts_ = 0;
  starting_ = false;
  decrease(now, 1 - c_->most_decrease);
}

void HybridController::timeout(Time now) {
  starting_ = false;
  if (++timeouts_ < c_->reset_after) return decrease(now, 1 - c_->most_decrease);
  fabric_ = c_->least_window;
  last_decrease_ = now;
  decreased_ = true;
}

Rate HybridController::rate() const {
  if (size() >= 1) return path_.line_rate();
  const double between = (c_->pace_by_target ? target() : rtt_) / size();
  return {std::min(path_.packet() * 8e9 / std::max(between, 1.0), path_.line_rate().bits_per_second)};
}

Algorithm hybrid_algorithm() {
  return {"hybrid", "Delay decides how much, marks decide whether: for Ethernet with ECN (ours).",
          kParameters, prepare};
}

}  // namespace megascale
