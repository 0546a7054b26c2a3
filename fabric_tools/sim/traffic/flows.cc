#include "fabric_tools/sim/traffic/flows.h"

namespace megascale::sim {

void Flows::begin(Wire& wire) {
  for (uint64_t i = 0; i < count_; ++i) {
    const Flow flow = flow_of_(i);
    wire.post(wire.connect(flow.source, flow.destination), flow.bytes, i, flow.at);
  }
}

void Flows::delivered(Wire& wire, const Delivery& delivery) {
  ++done_;
  wire.close(delivery.connection);
}

}  // namespace megascale::sim
