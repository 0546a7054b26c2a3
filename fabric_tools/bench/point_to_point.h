// What a network plugin gives to its caller directly, without collectives: throughput from rank 0 to rank 1
// with eight operations in flight on each connection, half a round trip with one, and the CPU time of both.
#pragma once
#include <string>
#include <vector>

#include "fabric_tools/bench/report.h"
#include "plugin/host/loader.h"
#include "plugin/host/rendezvous.h"

namespace megascale {

// Fills in `what.network` and the like and prints at rank 0. Throws std::runtime_error.
std::vector<PointToPointRow> run_point_to_point(host::Rendezvous&, host::NetContext&, int rank, int device,
                                                const Circumstances& what);

}  // namespace megascale
