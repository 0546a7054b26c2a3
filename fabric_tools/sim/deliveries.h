// What was delivered, and how long it took: the figures that a user of the network feels.
#pragma once
#include <vector>

#include "fabric_tools/random.h"
#include "fabric_tools/sim/simulation.h"
#include "fabric_tools/sim/ticks.h"

namespace megascale::sim {

// Mean and greatest of all values; quantiles of all up to 100,000, of a fair sample of so many above
// (Vitter's algorithm R, 1985).
class Sample {
 public:
  explicit Sample(uint64_t seed) : random_(seed) {}
  void add(double value);
  Quantiles quantiles() const;
  const std::vector<float>& values() const { return values_; }

 private:
  static constexpr size_t kMost = 100'000;
  Random random_;
  std::vector<float> values_;
  uint64_t count_ = 0;
  double sum_ = 0, max_ = 0;
};

class Deliveries {
 public:
  explicit Deliveries(uint64_t seed) : slowdowns_(seed + 2) {}

  void add(uint32_t connection, uint64_t tag, Tick posted, Tick at, Bytes, Tick alone);
  // A connection that had something to send for so long, and so many bytes of it were delivered.
  void add_connection(Tick active, Bytes);
  void report(Result&) const;
  uint64_t messages() const { return messages_; }

 private:
  Sample slowdowns_;
  uint64_t messages_ = 0, digest_ = 0, connections_ = 0;
  Bytes bytes_ = 0;
  Tick last_ = 0;
  double rates_ = 0, squares_ = 0;
};

}  // namespace megascale::sim
