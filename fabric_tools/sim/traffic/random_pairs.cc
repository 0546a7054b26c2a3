#include "fabric_tools/sim/traffic/random_pairs.h"

#include <algorithm>

namespace megascale::sim {

RandomPairs::RandomPairs(std::vector<uint32_t> nics, Bytes bytes, double gap, std::optional<Duration> lasts,
                         uint64_t seed)
    : nics_(std::move(nics)),
      bytes_(bytes),
      gap_(gap),
      endless_(!lasts),
      end_(lasts ? Time(*lasts) : kNever),
      random_(seed) {}

void RandomPairs::begin(Wire& wire) { wait_for_next(wire); }

void RandomPairs::wait_for_next(Wire& wire) {
  next_ += random_.exponential(gap_);
  if (next_ >= seconds(end_ - Time{})) over_ = true;
  else wire.wake(Time(from_seconds(next_)), 0);
}

void RandomPairs::woken(Wire& wire, uint64_t, Time now) {
  now_ = now;
  if (over_) return;
  const uint32_t n = static_cast<uint32_t>(nics_.size());
  const uint32_t source = random_.below(n);
  const uint32_t destination = (source + 1 + random_.below(n - 1)) % n;
  wire.post(wire.connect(nics_[source], nics_[destination]), bytes_, 0, now);
  ++posted_;
  wait_for_next(wire);
}

void RandomPairs::delivered(Wire& wire, const Delivery& delivery) {
  ++done_;
  wire.close(delivery.connection);
}

double RandomPairs::progress() const {
  if (finished()) return 1;
  return endless_ ? 0 : std::min(seconds(now_ - Time{}) / seconds(end_ - Time{}), 1.0);
}

// A guess: sixteen unfinished ones at each NIC are a fabric that is far behind.
uint64_t RandomPairs::connections() const {
  const uint64_t many = 16 * nics_.size();
  return endless_ ? many : std::min(many, static_cast<uint64_t>(messages()) + 1);
}

double RandomPairs::messages() const { return endless_ ? 0 : seconds(end_ - Time{}) / gap_; }

}  // namespace megascale::sim
