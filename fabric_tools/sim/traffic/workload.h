// A Traffic as the commands know it: with its size known before the run, and, where traffic is made of
// several parts, what each of them saw.
#pragma once
#include <optional>

#include "fabric_tools/sim/traffic.h"

namespace megascale::sim {

class Workload : public Traffic {
 public:
  virtual double messages() const = 0;  // about; 0 when it goes on until it is told to stop
  // Goes on as long as the other parts do: a victim, a background. It is not over until stop() was called.
  virtual bool endless() const { return false; }
  virtual void stop() {}
  // When what is not endless was over, if there is both.
  virtual std::optional<Time> foreground_end() const { return {}; }
  // Payload that the victim got through while the others sent; nothing without a victim.
  virtual std::optional<Rate> victim_goodput() const { return {}; }
};

// It is over when so many messages were delivered.
class Counted : public Workload {
 public:
  bool finished() const override { return done_ == count_; }
  double progress() const override { return static_cast<double>(done_) / static_cast<double>(count_); }
  double messages() const override { return static_cast<double>(count_); }

 protected:
  uint64_t count_ = 0, done_ = 0;
};

}  // namespace megascale::sim
