// Small networks and traffics for tests of the simulator, made by hand.
#pragma once
#include <vector>

#include "fabric_tools/sim/simulation.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

// Adds what a network is made of, one thing at a time.
struct Builder {
  Topology topology;

  uint32_t add_switch(std::string name, uint32_t tier);
  uint32_t add_nic(uint32_t tor, Rate, Duration delay);  // in a host of its own
  uint32_t join(uint32_t low, uint32_t high, Rate, Duration delay);
};

Topology single_switch(uint32_t nics, Rate = Rate::gigabits(100), Duration delay = 1us);
// NICs 0 to left-1 on one switch, the others on the other, one link between: it is the last one.
Topology dumbbell(uint32_t left, uint32_t right, Rate edge = Rate::gigabits(100),
                  Rate middle = Rate::gigabits(100), Duration delay = 1us);
// NICs in equal parts under `leaves` leaf switches, each joined to every spine.
Topology leaf_spine(uint32_t leaves, uint32_t spines, uint32_t nics_of_leaf, Rate = Rate::gigabits(100),
                    Rate uplink = Rate::gigabits(100), Duration delay = 1us);
// k-ary, three tiers (Al-Fares et al., SIGCOMM 2008).
Topology fat_tree(uint32_t k, Rate = Rate::gigabits(100), Duration delay = 1us);
// Switches in a ring, each with `nics` NICs: the classic case of a cyclic buffer dependency.
Topology ring(uint32_t switches, uint32_t nics, Rate = Rate::gigabits(100), Duration delay = 1us);

struct Send {
  uint32_t source, destination;
  Bytes bytes;
  Time at{0s};
};

// Independent messages, each on a connection of its own.
class Sends final : public Traffic {
 public:
  explicit Sends(std::vector<Send> sends) : sends_(std::move(sends)), times_(sends_.size(), Time{}) {}

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  bool finished() const override { return done_ == sends_.size(); }
  double progress() const override { return static_cast<double>(done_) / static_cast<double>(sends_.size()); }
  uint64_t connections() const override { return sends_.size(); }

  Time delivered_at(size_t send) const { return times_[send]; }

 private:
  std::vector<Send> sends_;
  std::vector<Time> times_;
  size_t done_ = 0;
};

// `senders` NICs after the first send to NIC 0.
std::vector<Send> incast(uint32_t senders, Bytes);
std::vector<Send> permutation(uint32_t nics, Bytes, uint64_t seed);
std::vector<Send> all_to_all(uint32_t nics, Bytes);

Result run(const Setup&, std::vector<Send>);

// A setup without marking, so that only what a test is about happens.
Setup plain(const Topology&);

}  // namespace megascale::sim
