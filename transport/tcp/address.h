// An IP address with a port, as the kernel and people write it.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>

namespace megascale::tcp {

struct Address {
  sockaddr_storage storage{};

  static std::optional<Address> parse(const std::string& text);  // "10.0.0.1", "fd00::1"
  static Address from(const sockaddr*);
  static Address v4(const uint8_t bytes[4], uint16_t port);
  static Address v6(const uint8_t bytes[16], uint16_t port);

  int family() const { return storage.ss_family; }
  bool is_v4() const { return family() == AF_INET; }
  const uint8_t* bytes() const;  // 4 or 16, network order
  std::size_t size() const { return is_v4() ? 4 : 16; }
  uint16_t port() const;
  void set_port(uint16_t);
  bool loopback() const;
  bool link_local() const;
  bool same_host(const Address&) const;  // but for the port
  bool same_subnet(const Address&, int prefix) const;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  socklen_t length() const { return is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }
  std::string text() const;            // without the port
  std::string text_with_port() const;  // "10.0.0.1:4711", "[fd00::1]:4711"
};

}  // namespace megascale::tcp
