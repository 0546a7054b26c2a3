// Links that go down, come back or are slow, by the schedule of a model.
#pragma once
#include <vector>

#include "fabric_tools/sim/endpoints.h"
#include "fabric_tools/sim/event_queue.h"
#include "fabric_tools/sim/fabric.h"
#include "fabric_tools/sim/model.h"

namespace megascale::sim {

// The link that a fault happens to. Throws std::invalid_argument for a name that nothing has, two ends that
// no link joins, a time or a share of the rate that is not one.
uint32_t link_of(const Topology&, const Fault&);

class Faults {
 public:
  Faults(const Topology&, const Model&, EventQueue&, Fabric&, Endpoints&);

  void on_event(uint32_t index);

 private:
  struct Active {
    uint32_t link;
    double rate;
    bool now = false;
  };

  const Topology& topology_;
  EventQueue& events_;
  Fabric& fabric_;
  Endpoints& endpoints_;
  const Tick reroute_;
  std::vector<Active> faults_;
};

}  // namespace megascale::sim
