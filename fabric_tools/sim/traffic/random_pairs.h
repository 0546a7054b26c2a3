// Messages between random pairs of NICs that arrive as a Poisson process, each on a connection of its own:
// for some time, or as the background of other traffic, for as long as that lasts.
#pragma once
#include <vector>

#include "fabric_tools/random.h"
#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

class RandomPairs : public Workload {
 public:
  // `gap`: mean seconds between two messages, of all NICs together; often less than the nanosecond that
  // clocks tell. `lasts`: nothing: until stop().
  RandomPairs(std::vector<uint32_t> nics, Bytes, double gap, std::optional<Duration> lasts, uint64_t seed);

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  void woken(Wire&, uint64_t tag, Time now) override;
  bool finished() const override { return over_ && posted_ == done_; }
  double progress() const override;
  uint64_t connections() const override;
  double messages() const override;
  bool endless() const override { return endless_; }
  void stop() override { over_ = true; }

 private:
  void wait_for_next(Wire&);

  std::vector<uint32_t> nics_;
  Bytes bytes_;
  double gap_, next_ = 0;  // `next_`: when the next message arrives, in seconds
  bool endless_;
  Time end_;
  Random random_;
  bool over_ = false;  // nothing more is posted
  uint64_t posted_ = 0, done_ = 0;
  Time now_{};
};

}  // namespace megascale::sim
