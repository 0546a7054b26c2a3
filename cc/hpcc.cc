#include "cc/hpcc.h"

#include <algorithm>

namespace megascale {
namespace {

constexpr Parameter kParameters[] = {
    {"target_utilisation", "", 0.95, 0.1, 1, "The share of a link that is aimed at (eta)."},
    {"most_stages", "", 5, 0, 1000, "Rounds of additive increase before a multiplicative one (maxStage)."},
    {"additive_increase", "bytes", 0, 0, 1e9,
     "Added to the window for fairness (W_AI); 0: first window x (1 - target_utilisation) / flows."},
    {"flows", "", 16, 1, 1e9, "Flows that are expected to share a link, for additive_increase."},
    {"least_rate", "bit/s", 100e6, 1e3, 1e12, "The window never goes below this rate x base RTT."},
    {"initial_window", "", 1, 0.01, 1000, "First and largest window, in products of line rate and base RTT."},
};

Recipe prepare(const Parameters& v) {
  auto constants = std::make_shared<const HpccConstants>(HpccConstants{
      .target_utilisation = v.at("target_utilisation"),
      .most_stages = static_cast<unsigned>(v.at("most_stages")),
      .additive_increase = v.at("additive_increase"),
      .flows = v.at("flows"),
      .least_rate = v.at("least_rate"),
      .initial_window = v.at("initial_window"),
  });
  return [constants](const PathFacts& path) { return std::make_unique<HpccController>(constants, path); };
}

}  // namespace

HpccController::HpccController(std::shared_ptr<const HpccConstants> constants, const PathFacts& path)
    : c_(std::move(constants)), path_(path), window_(most_window()), reference_(window_) {}

// False when these reports only begin a series: the first, or a path that is not the one before.
bool HpccController::estimate(std::span<const HopReport> hops) {
  const size_t count = std::min(hops.size(), kMostHops);
  bool same_path = count > 0 && count == known_;
  double busiest = -1, its_time = 0;
  const double base = path_.base_rtt();
  for (size_t i = 0; same_path && i < count; ++i) {
    const HopReport& now = hops[i];
    const HopReport& before = last_[i];
    const double passed = ns(now.at - before.at), capacity = now.capacity.bytes_per_second() / 1e9;
    if (now.transmitted < before.transmitted || now.capacity != before.capacity) same_path = false;
    if (passed <= 0 || capacity <= 0) continue;  // two packets of one instant tell no rate
    const double throughput = static_cast<double>(now.transmitted - before.transmitted) / passed;
    const double queue = static_cast<double>(std::min(now.queue, before.queue));
    const double used = queue / (capacity * base) + throughput / capacity;
    if (used > busiest) {
      busiest = used;
      its_time = passed;
    }
  }
  std::copy_n(hops.begin(), count, last_.begin());
  known_ = count;
  if (!same_path || busiest < 0) return false;
  const double share = std::min(its_time / base, 1.0);
  utilisation_ += share * (std::min(busiest, 1000.0) - utilisation_);
  return true;
}

void HpccController::telemetry(const Telemetry& t) {
  const bool told = estimate(t.hops);
  const bool round_over = rounds_.acked(t.sequence);
  if (!told) return;
  const double most = most_window();
  const double step =
      c_->additive_increase > 0 ? c_->additive_increase : most * (1 - c_->target_utilisation) / c_->flows;
  const bool multiply = utilisation_ >= c_->target_utilisation || stage_ >= c_->most_stages;
  window_ = multiply ? reference_ * c_->target_utilisation / std::max(utilisation_, 1e-3) + step
                     : reference_ + step;
  const double least = std::min(c_->least_rate / 8e9 * path_.base_rtt(), most);
  window_ = std::clamp(window_, std::max(least, 1.0), std::max(most, 1.0));
  if (!round_over) return;
  reference_ = window_;
  stage_ = multiply ? 0 : stage_ + 1;
}

void HpccController::timeout(Time) {
  window_ = reference_ = std::max(window_ / 2, std::max(c_->least_rate / 8e9 * path_.base_rtt(), 1.0));
  known_ = 0;
}

Rate HpccController::rate() const {
  const double bits = window_ * 8e9 / path_.base_rtt();
  return path_.at_most_line_rate(bits);
}

Algorithm hpcc_algorithm() {
  return {"hpcc", "A window steered by in-band telemetry of each hop (Li et al., SIGCOMM 2019).", kParameters,
          prepare};
}

}  // namespace megascale
