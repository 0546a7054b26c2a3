// Links that go down, come back or are slow, by the schedule of a model.
#pragma once
#include <set>
#include <unordered_map>
#include <vector>

#include "fabric_tools/sim/endpoints.h"
#include "fabric_tools/sim/event_queue.h"
#include "fabric_tools/sim/fabric.h"
#include "fabric_tools/sim/model.h"

namespace megascale::sim {

// The links that faults happen to. Throws std::invalid_argument for a name that nothing has, two ends that no
// link joins, a time or a share of the rate that is not one.
std::vector<uint32_t> links_of(const Topology&, const std::vector<Fault>&);

class Faults {
 public:
  Faults(const Topology&, const Model&, EventQueue&, Fabric&, Endpoints&);

  void on_event(uint32_t index);

 private:
  struct OnLink {
    uint32_t link;
    double rate;
  };

  const Topology& topology_;
  EventQueue& events_;
  Fabric& fabric_;
  Endpoints& endpoints_;
  const Tick reroute_;
  std::vector<OnLink> faults_;
  std::unordered_map<uint32_t, std::multiset<double>>
      now_;  // of each link: what its faults leave of the rate
};

}  // namespace megascale::sim
