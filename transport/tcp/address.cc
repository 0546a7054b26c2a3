#include "transport/tcp/address.h"

#include <arpa/inet.h>

#include <cstring>

namespace megascale::tcp {
namespace {
const sockaddr_in& in4(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in&>(s); }
const sockaddr_in6& in6(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in6&>(s); }
}  // namespace

std::optional<Address> Address::parse(const std::string& text) {
  uint8_t b[16];
  if (inet_pton(AF_INET, text.c_str(), b) == 1) return v4(b, 0);
  if (inet_pton(AF_INET6, text.c_str(), b) == 1) return v6(b, 0);
  return std::nullopt;
}

Address Address::from(const sockaddr* a) {
  Address r;
  if (a->sa_family == AF_INET6) {
    auto& six = *reinterpret_cast<const sockaddr_in6*>(a);
    // what a socket for both families says of IPv4
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return v4(six.sin6_addr.s6_addr + 12, ntohs(six.sin6_port));
    std::memcpy(&r.storage, a, sizeof(sockaddr_in6));
  } else {
    std::memcpy(&r.storage, a, sizeof(sockaddr_in));
  }
  return r;
}

Address Address::v4(const uint8_t bytes[4], uint16_t port) {
  Address r;
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  std::memcpy(&a.sin_addr, bytes, 4);
  std::memcpy(&r.storage, &a, sizeof a);
  return r;
}

Address Address::v6(const uint8_t bytes[16], uint16_t port) {
  Address r;
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_port = htons(port);
  std::memcpy(&a.sin6_addr, bytes, 16);
  std::memcpy(&r.storage, &a, sizeof a);
  return r;
}

const uint8_t* Address::bytes() const {
  return is_v4() ? reinterpret_cast<const uint8_t*>(&in4(storage).sin_addr) : in6(storage).sin6_addr.s6_addr;
}

uint16_t Address::port() const { return ntohs(is_v4() ? in4(storage).sin_port : in6(storage).sin6_port); }

void Address::set_port(uint16_t p) {
  if (is_v4()) reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(p);
  else reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(p);
}

bool Address::loopback() const {
  return is_v4() ? bytes()[0] == 127 : IN6_IS_ADDR_LOOPBACK(&in6(storage).sin6_addr) != 0;
}

bool Address::link_local() const {
  return is_v4() ? bytes()[0] == 169 && bytes()[1] == 254
                 : IN6_IS_ADDR_LINKLOCAL(&in6(storage).sin6_addr) != 0;
}

bool Address::same_host(const Address& o) const {
  return family() == o.family() && !std::memcmp(bytes(), o.bytes(), size());
}

bool Address::same_subnet(const Address& o, int prefix) const {
  if (family() != o.family()) return false;
  for (int i = 0; i < prefix; i++) {
    int mask = 0x80 >> (i % 8);
    if ((bytes()[i / 8] & mask) != (o.bytes()[i / 8] & mask)) return false;
  }
  return true;
}

std::string Address::text() const {
  char b[INET6_ADDRSTRLEN] = "?";
  inet_ntop(family(), bytes(), b, sizeof b);
  return b;
}

std::string Address::text_with_port() const {
  std::string result = is_v4() ? text() : "[";
  if (!is_v4()) result.append(text()).append("]");
  return result.append(":").append(std::to_string(port()));
}

}  // namespace megascale::tcp
