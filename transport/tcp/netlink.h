// Watches the kernel's news of interfaces and addresses (rtnetlink), so that a lost rail is known before data
// is missed.
#pragma once
#include <functional>
#include <string>

#include "transport/link.h"
#include "transport/tcp/rail.h"
#include "transport/tcp/socket.h"

namespace megascale::tcp {

class Netlink {
 public:
  struct News {
    enum class What : uint8_t { interface_up, interface_down, address_added, address_removed } what;
    unsigned ifindex = 0;
    std::string interface;  // may be empty for addresses
    Address address;        // for addresses
  };

  Netlink();  // without a netlink socket it stays silent: links find out by themselves
  int descriptor() const { return socket_.fd(); }
  // Reads what is there and tells each piece of news. True: some may have been lost, look at everything anew.
  bool read(const std::function<void(const News&)>&);

 private:
  Socket socket_;
};

// What the kernel says of a rail just now: fine, or why it cannot be used.
enum class RailState : uint8_t { up, interface_gone, address_gone };
RailState state_of(const Rail&);

}  // namespace megascale::tcp
