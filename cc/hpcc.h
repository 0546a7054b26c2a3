// The controller `hpcc`: a window steered by what each switch on the path writes into packets, its queue and
// its throughput, so that no link is used beyond a little less than all of it (Li et al., SIGCOMM 2019,
// algorithm 1).
#pragma once
#include <array>
#include <memory>

#include "cc/path.h"
#include "cc/rounds.h"

namespace megascale {

struct HpccConstants {
  double target_utilisation;  // eta
  unsigned most_stages;       // of additive increase before a multiplicative one
  double additive_increase;   // bytes; 0: by `flows`
  double flows;
  double least_rate;      // bit/s
  double initial_window;  // products of line rate and base RTT
};

class HpccController final : public Controller {
 public:
  HpccController(std::shared_ptr<const HpccConstants>, const PathFacts&);

  std::string_view name() const override { return "hpcc"; }
  bool wants_telemetry() const override { return true; }
  void sent(Time, Bytes, Bytes inflight) override { rounds_.sent(inflight); }
  void ack(const Ack& a) override { path_.measured(a.rtt); }
  void telemetry(const Telemetry&) override;
  void timeout(Time) override;  // no packet came back to tell of the path: the window halves

  Rate rate() const override;
  Bytes window() const override { return static_cast<Bytes>(window_); }

 private:
  // Longer paths are steered by their first hops; in a Clos of three tiers there are at most five switches.
  static constexpr size_t kMostHops = 8;

  bool estimate(std::span<const HopReport>);
  double most_window() const { return path_.bdp() * c_->initial_window; }

  std::shared_ptr<const HpccConstants> c_;
  Path path_;
  Rounds rounds_;
  double window_, reference_;  // bytes: now, and at the end of the last round
  double utilisation_ = 1;     // U: smoothed, of the busiest hop
  unsigned stage_ = 0;
  size_t known_ = 0;  // hops in `last_`
  std::array<HopReport, kMostHops> last_{};
};

Algorithm hpcc_algorithm();

}  // namespace megascale
