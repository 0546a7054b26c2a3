// The yardstick: what a plain TCP connection does on this machine.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "tests/bench/pair.h"

namespace megascale::bench {
namespace {

constexpr std::size_t kWrite = 1 << 20;

int made(const std::string& algorithm) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (!algorithm.empty() &&
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm.data(), static_cast<socklen_t>(algorithm.size())))
    throw std::runtime_error("this kernel does not allow the TCP algorithm " + algorithm);
  return fd;
}

// One end listens and tells where, the other connects.
int connected(const Exchange& x, const std::string& algorithm, bool listens) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof a;
  int fd = made(algorithm);
  if (!listens) {
    x.hear(&a, sizeof a);
    if (connect(fd, reinterpret_cast<sockaddr*>(&a), n)) throw std::runtime_error("cannot connect");
    return fd;
  }
  if (bind(fd, reinterpret_cast<sockaddr*>(&a), n) || listen(fd, 1) ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&a), &n))
    throw std::runtime_error("cannot listen");
  x.tell(&a, sizeof a);
  int c = accept(fd, nullptr, nullptr), one = 1;
  close(fd);
  setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return c;
}

void spin(bool sends, int fd, char* data, std::size_t n) {
  while (n) {
    ssize_t k = sends ? send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) : recv(fd, data, n, MSG_DONTWAIT);
    if (k == 0 || (k < 0 && errno != EAGAIN)) throw std::runtime_error("the connection broke");
    if (k < 0) continue;
    data += k;
    n -= static_cast<std::size_t>(k);
  }
}

}  // namespace

Side plain_stream_sender(std::size_t total, const std::string& algorithm) {
  return [=](const Exchange& x) {
    std::vector<char> data(kWrite, 1);
    int fd = connected(x, algorithm, false);
    x.meet();
    Cost c;
    c.began = seconds_now();
    double cpu = cpu_seconds();
    for (std::size_t sent = 0; sent < total;) {
      ssize_t k = write(fd, data.data(), std::min(kWrite, total - sent));
      if (k <= 0) throw std::runtime_error("the plain stream broke");
      sent += static_cast<std::size_t>(k);
    }
    c.cpu = cpu_seconds() - cpu;
    c.ended = seconds_now();
    x.meet();
    return c;
  };
}

Side plain_stream_receiver(std::size_t total, const std::string& algorithm) {
  return [=](const Exchange& x) {
    std::vector<char> data(kWrite, 1);
    int fd = connected(x, algorithm, true);
    x.meet();
    Cost c;
    c.began = seconds_now();
    double cpu = cpu_seconds();
    for (std::size_t got = 0; got < total;) {
      ssize_t k = read(fd, data.data(), kWrite);
      if (k <= 0) throw std::runtime_error("the plain stream broke");
      got += static_cast<std::size_t>(k);
    }
    c.cpu = cpu_seconds() - cpu;
    c.ended = seconds_now();
    x.meet();
    return c;
  };
}

Side bare_stream(std::size_t total, std::size_t message, const std::string& algorithm, bool sends) {
  return [=](const Exchange& x) {
    std::vector<std::vector<char>> buffers(8, std::vector<char>(message, 1));
    int fd = connected(x, algorithm, !sends);
    x.meet();
    Cost c;
    c.began = seconds_now();
    double cpu = cpu_seconds();
    for (std::size_t i = 0; i < total / message; i++) spin(sends, fd, buffers[i % 8].data(), message);
    c.cpu = cpu_seconds() - cpu;
    c.ended = seconds_now();
    x.meet();
    return c;
  };
}

Side plain_ping(int rounds, std::size_t bytes, const std::string& algorithm, bool first) {
  return [=](const Exchange& x) {
    std::vector<char> data(bytes, 1);
    int fd = connected(x, algorithm, !first);
    x.meet();
    Cost c;
    c.began = seconds_now();
    double cpu = cpu_seconds();
    for (int i = 0; i < rounds; i++) {
      double t = seconds_now();
      spin(first, fd, data.data(), bytes);
      spin(!first, fd, data.data(), bytes);
      if (first) c.samples.push_back((seconds_now() - t) / 2);
    }
    c.cpu = cpu_seconds() - cpu;
    c.ended = seconds_now();
    x.meet();
    return c;
  };
}

}  // namespace megascale::bench
