// Several traffics at once, each from a time of its own: an incast and a victim, a step and a background.
// What is endless among them is stopped when the rest is over.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

class Parts : public Workload {
 public:
  struct Part {
    std::unique_ptr<Workload> traffic;
    Duration start{0};  // its clock begins then
    bool begun = false;
  };
  static constexpr size_t kMost = 16;

  explicit Parts(std::vector<Part> parts) : parts_(std::move(parts)) {}

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  void woken(Wire&, uint64_t tag, Time now) override;
  bool finished() const override;
  double progress() const override;
  uint64_t connections() const override;
  double messages() const override;
  std::optional<Time> foreground_end() const override;
  std::optional<Rate> victim_goodput() const override;

 private:
  void after(Time now);  // something happened: is the foreground over?

  std::vector<Part> parts_;
  bool foreground_over_ = false;
  Time foreground_end_{};
};

}  // namespace megascale::sim
