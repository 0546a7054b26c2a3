#include "fabric_tools/sim/traffic/victim.h"

namespace megascale::sim {

void Victim::begin(Wire& wire) {
  connection_ = wire.connect(source_, destination_);
  for (; outstanding_ < kAtOnce; ++outstanding_) wire.post(connection_, kMessage, 0, Time{});
}

void Victim::delivered(Wire& wire, const Delivery& delivery) {
  if (over_) {
    if (--outstanding_ == 0) wire.close(connection_);
    return;
  }
  delivered_ += kMessage;
  last_ = delivery.at;
  wire.post(connection_, kMessage, 0, delivery.at);
}

void Victim::stop() { over_ = true; }

std::optional<Rate> Victim::victim_goodput() const {
  if (delivered_ == 0) return Rate{0};
  return Rate{static_cast<double>(delivered_) * 8 / seconds(last_ - Time{})};
}

}  // namespace megascale::sim
