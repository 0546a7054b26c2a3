// Flows that always have something to send, and what each of them got through in every window of time.
#pragma once
#include <vector>

#include "fabric_tools/sim/traffic.h"

namespace megascale::sim {

struct Stream {
  uint32_t source = 0, destination = 0;  // NICs
  Time from{};
};

// Never finished: Setup::limit ends the run.
class Streams final : public Traffic {
 public:
  Streams(std::vector<Stream> streams, Duration window)
      : streams_(std::move(streams)), window_(window), got_(streams_.size()) {}

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  bool finished() const override { return false; }
  double progress() const override { return 0; }
  uint64_t connections() const override { return streams_.size(); }

  // Payload over time, from the begin of a window to that of another.
  Rate goodput(size_t stream, Time from, Time to) const;
  Rate goodput(Time from, Time to) const;  // of all
  double jain(Time from, Time to) const;   // 1: all get the same (Jain et al., 1984)
  double mean_jain_of_windows(Time from, Time to) const;
  // When all together first get `wanted` in a window, at `after` or later; the end of that window.
  Time first_reaches(Rate wanted, Time after) const;

 private:
  static constexpr Bytes kMessage = 4096;    // one packet, so that windows may be short
  static constexpr uint32_t kAtOnce = 1024;  // more than any window here: nobody waits for the traffic

  Bytes bytes(size_t stream, Time from, Time to) const;

  std::vector<Stream> streams_;
  Duration window_;
  std::vector<std::vector<Bytes>> got_;  // of each stream, in each window
};

// `count` NICs after the first, to NIC 0.
std::vector<Stream> streams_to_first(uint32_t count);

}  // namespace megascale::sim
