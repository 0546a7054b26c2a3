// The rails of this process: one per NIC port's address that may carry traffic, in an order that is the same
// in every process of the host.
#pragma once
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/base/settings.h"
#include "transport/tcp/address.h"

namespace megascale::tcp {

struct Rail {
  std::string name;       // unique on the host: the interface, or interface/address where it has several
  std::string interface;  // "eth0"
  unsigned ifindex = 0;
  Address address;
  int prefix = 32;
  std::string pci_path;  // real sysfs folder of the NIC; empty: none (virtual)
  uint64_t guid = 0;     // the same for the same physical port
  int megabits = 10000;
};

// By MEGASCALE_RAILS (addresses, in that order), else by interface: those of NCCL_SOCKET_IFNAME, else every
// interface that is up and neither loopback nor a container's bridge; loopback if there is nothing else.
// Empty and an error when what was asked for is not there.
Result<std::vector<Rail>> find_rails(const Settings&);

// Whether an interface is chosen by NCCL's notation: "eth,ib0" prefixes, "=eth0" exact, "^docker" all but
// these.
bool interface_chosen(const std::string& notation, const std::string& name);

}  // namespace megascale::tcp
