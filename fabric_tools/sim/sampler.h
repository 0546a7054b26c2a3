// Queues and rates of the busiest ports over time, for plots.
#pragma once
#include <vector>

#include "fabric_tools/sim/fabric.h"

namespace megascale::sim {

class Sampler {
 public:
  Sampler(EventQueue&, const Fabric&, Duration every);

  void on_event();
  Duration every() const { return duration(every_); }  // longer than it began where the run is long
  // The `most` busiest ports of switches that were followed to the end.
  std::vector<Series> busiest(size_t most) const;

 private:
  struct Track {
    Series series;
    uint64_t sent = 0;  // bytes, at the last sample
  };
  void forget_idle();
  void halve();

  EventQueue& events_;
  const Fabric& fabric_;
  Tick every_;
  std::vector<Track> tracks_;
  size_t samples_ = 0;
};

}  // namespace megascale::sim
