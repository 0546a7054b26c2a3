// One step of 3-D parallel training, as placement/step.h lists its communications: ring collectives of the
// tensor- and data-parallel ranks, activations and gradients between stages, and the computing in between.
// What stays inside a host takes its time there, and no network.
#pragma once
#include <unordered_map>
#include <vector>

#include "fabric_tools/placement/placement.h"
#include "fabric_tools/placement/step.h"
#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

class StepTraffic : public Workload {
 public:
  // `inside`: rate at which a GPU sends to another of its host. The placement's topology must outlive it.
  StepTraffic(TrainingStep, Placement, Rate inside);

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  void woken(Wire&, uint64_t tag, Time now) override;
  bool finished() const override { return done_ == step_.communications.size(); }
  double progress() const override {
    return static_cast<double>(done_) / static_cast<double>(step_.communications.size());
  }
  uint64_t connections() const override { return pairs_.size(); }
  double messages() const override { return messages_; }

 private:
  struct State {                     // of a communication
    uint32_t waits_for = 0;          // others
    uint32_t first_follower = 0;     // in followers_; the next one's is the end
    uint32_t ranks_left = 0;         // that have not received everything
    std::vector<uint32_t> received;  // steps, by each rank, while it runs
  };

  const Communication& at(uint32_t index) const { return step_.communications[index]; }
  static uint32_t rounds(const Communication&);  // of a ring: everybody's n-1 messages
  uint32_t steps(const Communication& c) const {
    return rounds(c) * static_cast<uint32_t>(c.ranks.size() - 1);
  }
  void count_messages(const Communication&);
  void wait(Wire&, uint32_t index, Time now);  // computes, then starts
  void start(Wire&, uint32_t index, Time now);
  void send(Wire&, uint32_t index, uint32_t place, uint32_t step, Time now);
  void arrived(Wire&, uint64_t tag, Time now);
  void end(Wire&, uint32_t index, Time now);

  TrainingStep step_;
  Placement placement_;
  Rate inside_;
  double messages_ = 0;
  uint64_t done_ = 0;
  std::vector<State> states_;  // and one behind the last
  std::vector<uint32_t> followers_;
  std::unordered_map<uint64_t, ConnectionId> pairs_;  // kUnconnected until first used
};

}  // namespace megascale::sim
