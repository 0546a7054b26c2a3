// A flow that always has something to send, for as long as other traffic lasts: what it gets through shows
// how much others' congestion costs those who have no part in it.
#pragma once
#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

class Victim : public Workload {
 public:
  Victim(uint32_t source, uint32_t destination) : source_(source), destination_(destination) {}

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  bool finished() const override { return over_ && outstanding_ == 0; }
  double progress() const override { return finished() ? 1 : 0; }
  uint64_t connections() const override { return 1; }
  double messages() const override { return 0; }
  bool endless() const override { return true; }
  void stop() override;
  std::optional<Rate> victim_goodput() const override;

 private:
  // Enough messages at once that the connection never waits for the traffic, small enough to count by.
  static constexpr Bytes kMessage = 65536;
  static constexpr uint32_t kAtOnce = 32;

  uint32_t source_, destination_;
  ConnectionId connection_ = 0;
  uint32_t outstanding_ = 0;
  bool over_ = false;
  Bytes delivered_ = 0;  // before stop()
  Time last_{};
};

}  // namespace megascale::sim
