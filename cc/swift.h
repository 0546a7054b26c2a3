// The controller `swift`: a window steered by delay against a target that grows with hops and shrinks with
// the window, down to far less than one packet (Kumar et al., SIGCOMM 2020, algorithm 1, sections 3.1
// to 3.5).
//
// Two windows: one for the fabric's part of the RTT, one for the receiver's host. The smaller holds.
#pragma once
#include <memory>

#include "cc/flow_scaling.h"
#include "cc/host_window.h"
#include "cc/path.h"

namespace megascale {

struct SwiftConstants {
  double base_target, queue_target, hop_target;  // ns
  FlowScaling scaling;
  double increase, decrease, most_decrease;
  HostWindow::Constants host;
  double least_window;                 // packets
  double most_window, initial_window;  // products of line rate and target, or of base RTT
  unsigned reset_after;                // timeouts
  bool pace_by_target;
};

class SwiftController final : public Controller {
 public:
  SwiftController(std::shared_ptr<const SwiftConstants>, const PathFacts&);

  std::string_view name() const override { return "swift"; }
  void ack(const Ack&) override;
  void loss(Time, Bytes) override;
  void timeout(Time) override;

  Rate rate() const override;
  Bytes window() const override { return path_.bytes(size()); }

 private:
  double size() const { return std::min(fabric_, host_.size()); }  // packets
  double unscaled_target() const;                                  // ns
  double target() const;                                           // ns: of the fabric's delay
  double most() const;                                             // packets
  void decrease(Time, double factor);

  std::shared_ptr<const SwiftConstants> c_;
  Path path_;
  unsigned hops_ = 0;  // before fabric_, which begins with a target
  double fabric_;      // packets: the fabric's window
  HostWindow host_;
  double rtt_;  // ns, the last
  Time last_decrease_{};
  unsigned timeouts_ = 0;
  bool decreased_ = false;
};

Algorithm swift_algorithm();

}  // namespace megascale
