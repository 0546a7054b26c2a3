// A bound for any traffic: what it would take on a network where nobody is in anybody's way, and no NIC sends
// or receives faster than its link. Nothing real can be faster; without dependencies and with equal NICs it
// is the familiar (n-1) x wire bytes / rate of an all-to-all or 2(n-1)/n x S / rate of a ring.
#pragma once
#include <atomic>
#include <functional>

#include "fabric_tools/sim/model.h"
#include "fabric_tools/sim/traffic/workload.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

struct Alone {  // what the network does to a message that is alone in it
  std::function<Duration(uint32_t source, uint32_t destination, Bytes)> message;
  Hosts hosts;
};

// Runs the traffic, which must be fresh and not endless, message by message instead of packet by packet. What
// it returns once `stop` is set means nothing. Throws std::runtime_error where the traffic stops before it is
// finished (it waits for itself).
Duration ideal_completion(const Topology&, const Alone&, Workload&, const std::atomic<bool>* stop = nullptr);

// What a message takes up on a link.
Bytes wire_bytes(const Hosts&, Bytes message);

}  // namespace megascale::sim
