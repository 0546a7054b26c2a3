#include "fabric_tools/sim/headroom.h"

#include <cmath>

namespace megascale::sim {

Bytes headroom_needed(const HeadroomCase& c) {
  const double on_the_wire = seconds(2 * c.delay + c.latency) * c.rate.bytes_per_second();
  return static_cast<Bytes>(std::ceil(on_the_wire - 1e-6)) + 2 * c.packet + kPauseFrame +
         kPauseResponseQuanta * 512 / 8;
}

}  // namespace megascale::sim
