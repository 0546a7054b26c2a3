// Two ends of a real TCP connection on loopback, and a sink that writes down what a link tells of.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/statistics.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_link.h"

namespace megascale::tcp {

inline Time clock_now() {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

// Whether `condition` came true within what even a crowded machine needs.
inline bool eventually(const std::function<bool()>& condition, Duration limit = 30s) {
  for (Time end = clock_now() + limit; clock_now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return condition();
}

// The only chunk of a message.
inline Chunk whole(MessageId m, Bytes total) {
  return {.message = m, .total = total, .chunk_bytes = Chunk::cut(total, total ? total : 128), .index = 0};
}

// Connected, tuned and non-blocking: {the end that dialled, the end that accepted}.
inline std::pair<Socket, Socket> connected(const Tuning& tuning = {}) {
  uint16_t port = 0;
  auto listening = listen_everywhere(port);
  if (!listening) throw std::runtime_error(listening.error().message);
  Address to = *Address::parse("127.0.0.1");
  to.set_port(port);
  Socket dialled(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(dialled.fd(), to.get(), to.length())) throw std::runtime_error(strerror(errno));
  Socket accepted;
  eventually([&] {
    accepted = Socket(accept4(listening->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    return static_cast<bool>(accepted);
  });
  if (!accepted) throw std::runtime_error("nobody came");
  fcntl(dialled.fd(), F_SETFL, O_NONBLOCK);
  tune(dialled.fd(), tuning);
  tune(accepted.fd(), tuning);
  return {std::move(dialled), std::move(accepted)};
}

struct Notes final : Sink {
  std::function<std::byte*(const Chunk&)> place = [](const Chunk&) { return nullptr; };
  std::vector<Chunk> landed, arrived;
  std::vector<std::string> words;
  std::vector<Cause> causes;
  int fences = 0;
  std::vector<std::string> order;  // of what came: "record", "chunk"

  std::byte* land(Link&, const Chunk& c) override {
    landed.push_back(c);
    return place(c);
  }
  void placed(Link&, const Chunk& c) override {
    arrived.push_back(c);
    order.push_back("chunk");
  }
  void heard(Link&, ConstBytes b) override {
    words.emplace_back(reinterpret_cast<const char*>(b.data()), b.size());
    order.push_back("record");
  }
  void fenced(Link&) override { fences++; }
  void broke(Link& l, Cause c) override {
    causes.push_back(c);
    l.fence();  // as rails/ does
  }
};

inline ConstBytes bytes_of(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

inline std::vector<std::byte> pattern(std::size_t n, unsigned seed = 1) {
  std::vector<std::byte> v(n);
  uint32_t x = seed * 2654435761u + 1;
  for (auto& b : v) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return v;
}

inline std::unique_ptr<TcpLink> link_over(Socket s, Side side, Duration flap_detect = 10s) {
  return std::make_unique<TcpLink>(s.release(), side, flap_detect, statistics_for("test"), "test link");
}

}  // namespace megascale::tcp
