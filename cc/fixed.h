// The controller `fixed`: a constant rate and window whatever the network says, for rate caps and as the
// yardstick of the others.
#pragma once
#include "cc/registry.h"

namespace megascale {

class FixedController final : public Controller {
 public:
  FixedController(Rate rate, Bytes window) : rate_(rate), window_(window) {}

  std::string_view name() const override { return "fixed"; }
  Rate rate() const override { return rate_; }
  Bytes window() const override { return window_; }

 private:
  const Rate rate_;
  const Bytes window_;
};

Algorithm fixed_algorithm();

}  // namespace megascale
