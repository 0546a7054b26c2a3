// Which rank lives where: hosts in an order, so many ranks on each, and a rail for each rank.
#pragma once
#include <cstdint>
#include <vector>

#include "fabric_tools/placement/step.h"
#include "fabric_tools/topology/topology.h"

namespace megascale {

inline constexpr uint32_t kMostGpus = 64;  // of a host

struct Placement {
  const Topology* topology = nullptr;
  uint32_t gpus_per_host = 1;
  std::vector<uint32_t> hosts;  // in Topology::hosts; rank r lives on hosts[r / gpus_per_host]

  uint32_t host_of(uint32_t rank) const { return hosts[rank / gpus_per_host]; }
  uint32_t local_of(uint32_t rank) const { return rank % gpus_per_host; }
  // Its local rank is its rail; with fewer NICs than GPUs, neighbours share one.
  uint32_t nic_of(uint32_t rank) const {
    const Host& host = topology->hosts[host_of(rank)];
    return host.first_nic + local_of(rank) * host.nics / gpus_per_host;
  }
  // Where bytes from one rank enter and leave the network; both kNone within a host. They stay on the rail of
  // the sender, and change GPUs inside the receiver's host where that is another's: as NCCL does it.
  struct Way {
    uint32_t source = kNone, destination = kNone;  // NICs
  };
  Way way(uint32_t rank, uint32_t other) const;
};

// Orders hosts as MegaScale does (Jiang et al., NSDI 2024): tensor parallelism inside a host, the
// data-parallel ranks of a stage under one ToR set where they fit, else in one pod, and stages across; the
// stages that are neighbours stay near each other. Of more hosts than are needed, those are taken with
// which the fewest bytes cross tiers. `hosts`: those that may be used; none given: all. Throws
// std::invalid_argument with what does not fit.
Placement place(const Topology&, const std::vector<uint32_t>& hosts, uint32_t gpus_per_host, const Parallel&);

// Hosts as they come, without regard to the fabric.
Placement in_order(const Topology&, std::vector<uint32_t> hosts, uint32_t gpus_per_host, const Parallel&);

}  // namespace megascale
