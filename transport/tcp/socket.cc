#include "transport/tcp/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "cc/registry.h"
#include "transport/base/log.h"

namespace megascale::tcp {
namespace {

template <class T>
bool set(int fd, int level, int name, T value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

Error failed(const std::string& what) { return Error{Code::system, what + ": " + strerror(errno)}; }

bool allows(const std::string& algorithm) {
  Socket s(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return s && setsockopt(s.fd(), IPPROTO_TCP, TCP_CONGESTION, algorithm.data(),
                         static_cast<socklen_t>(algorithm.size())) == 0;
}

constexpr int kNoted = 1 << 16;
std::atomic<uint64_t> noted[kNoted / 64];

}  // namespace

void note_descriptor(int fd) {
  if (fd >= 0 && fd < kNoted) noted[fd / 64].fetch_or(1ull << (fd % 64));
}

void close_descriptor(int fd) {
  if (fd >= 0 && fd < kNoted) noted[fd / 64].fetch_and(~(1ull << (fd % 64)));
  close(fd);
}

void close_all_in_child() {
  for (int i = 0; i < kNoted / 64; i++)
    for (uint64_t bits = noted[i].exchange(0); bits; bits &= bits - 1) close(i * 64 + std::countr_zero(bits));
}

Socket& Socket::operator=(Socket&& o) noexcept {
  if (this != &o) {
    if (fd_ >= 0) close_descriptor(fd_);
    fd_ = o.release();
  }
  return *this;
}
Socket::~Socket() {
  if (fd_ >= 0) close_descriptor(fd_);
}
int Socket::release() {
  int fd = fd_;
  fd_ = -1;
  return fd;
}

Tuning choose_tuning(const Settings& s) {
  Tuning t;
  t.send_buffer = s.tcp_send_buffer;
  t.receive_buffer = s.tcp_receive_buffer;
  t.rate = s.rate_limit;
  if (s.cc == "fixed") {  // the one controller whose answer the kernel's pacing can carry out
    std::vector<std::string> complaints;
    auto controller = build_controller(s.cc, s.cc_parameters, {}, &complaints);
    for (const auto& c : complaints) logf(Level::warn, "[cc] of the configuration: %s", c.c_str());
    if (controller) t.rate = std::min(t.rate, controller->rate());
  }
  if (s.tcp_algorithm != "auto") {
    if (allows(s.tcp_algorithm)) t.algorithm = s.tcp_algorithm;
    else
      logf(Level::warn,
           "MEGASCALE_TCP_ALGORITHM: this kernel does not let us use \"%s\" (see "
           "/proc/sys/net/ipv4/tcp_allowed_congestion_control); its default is used",
           s.tcp_algorithm.c_str());
    return t;
  }
  // bbr, some kernels' default, paces by its model of the path and slows large messages on fast local links.
  for (const char* a : {"cubic", "reno"})
    if (t.algorithm.empty() && allows(a)) t.algorithm = a;
  return t;
}

void tune(int fd, const Tuning& t) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
  if (!t.algorithm.empty())
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, t.algorithm.data(),
               static_cast<socklen_t>(t.algorithm.size()));
  if (t.send_buffer) set(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(t.send_buffer));
  if (t.receive_buffer) set(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(t.receive_buffer));
  if (!t.rate.is_unlimited())
    set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, static_cast<uint64_t>(t.rate.bytes_per_second()));
}

Result<Socket> listen_everywhere(uint16_t& port) {
  Socket s(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  bool ok = s && set(s.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0) &&
            !bind(s.fd(), reinterpret_cast<sockaddr*>(&six), sizeof six);
  if (!ok) {  // a host without IPv6
    s = Socket(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ok = s && !bind(s.fd(), reinterpret_cast<sockaddr*>(&four), sizeof four);
  }
  if (!ok || listen(s.fd(), 1024)) return failed("cannot listen for peers on a TCP port");
  sockaddr_storage a{};
  socklen_t n = sizeof a;
  if (getsockname(s.fd(), reinterpret_cast<sockaddr*>(&a), &n))
    return failed("cannot learn our listening port");
  port = Address::from(reinterpret_cast<sockaddr*>(&a)).port();
  return s;
}

Result<Socket> begin_connect(const Rail& from, const Address& to, const Tuning& tuning) {
  std::string what =
      "connecting from rail " + from.name + " (" + from.address.text() + ") to " + to.text_with_port();
  Socket s(socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!s) return failed(what);
  tune(s.fd(), tuning);
  set(s.fd(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (from.address.family() == to.family() && bind(s.fd(), from.address.get(), from.address.length()))
    return failed(what + ": the rail's address cannot be used");
  // Two NICs in one subnet: without this the routing table, not the rail, chooses the NIC.
  if (!to.loopback())
    setsockopt(s.fd(), SOL_SOCKET, SO_BINDTODEVICE, from.interface.c_str(),
               static_cast<socklen_t>(from.interface.size()));
  if (connect(s.fd(), to.get(), to.length()) && errno != EINPROGRESS) return failed(what);
  return s;
}

std::string algorithm_of(int fd) {
  char b[32]{};
  socklen_t n = sizeof b - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, b, &n) ? "?" : b;
}

Address local_address(int fd) {
  sockaddr_storage a{};
  socklen_t n = sizeof a;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&a), &n)) return {};
  return Address::from(reinterpret_cast<sockaddr*>(&a));
}

}  // namespace megascale::tcp
