// Two processes' worth of sessions inside one program: each Process has its own thread, rails on loopback and
// settings, so that everything but a real death can be tried here.
#pragma once
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/log.h"
#include "transport/session/process.h"

namespace megascale {

// Whether `condition` came true within what even a crowded machine needs.
inline bool eventually(const std::function<bool()>& condition, Duration limit = 60s) {
  for (Time end = now() + limit; now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return condition();
}

inline Settings on_loopback(const std::string& rails = "127.0.0.1,127.0.0.2") {
  Settings s;
  s.rails = rails;
  s.connect_timeout = 60s;
  s.flap_timeout = 60s;
  return s;
}

inline std::unique_ptr<Process> start(const Settings& s = on_loopback()) {
  auto p = Process::start(s);
  if (!p) throw std::runtime_error(p.error().message);
  return std::move(p).value();
}

inline std::vector<std::byte> pattern(std::size_t n, unsigned seed) {
  std::vector<std::byte> v(n);
  uint32_t x = seed * 2654435761u + 1;
  for (auto& b : v) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return v;
}

// ---- as the plugin does it: each call takes the lock, shows that the caller is awake, and pushes

inline Connection::State state_of(Endpoint* e) {
  Entered in(*e);
  e->called();
  e->connection().progress(now());
  return e->connection().state();
}

inline std::string error_of(Endpoint* e) {
  Entered in(*e);
  return e->connection().error().message;
}

inline Request* post_send(Endpoint* e, const void* data, std::size_t n, const void* mark = nullptr) {
  Entered in(*e);
  e->called();
  Request* r = e->sender()->post(static_cast<const std::byte*>(data), n, mark, now());
  e->connection().progress(now());
  return r;
}

inline Request* post_receive(Endpoint* e, void* data, std::size_t n, const void* mark = nullptr) {
  Entered in(*e);
  e->called();
  return e->receiver()->post(static_cast<std::byte*>(data), n, mark, now());
}

// Whether it is done; then it is dead.
inline bool finished(Endpoint* e, Request* r) {
  Entered in(*e);
  e->called();
  e->connection().progress(now());
  if (!r->done) return false;
  r->busy = false;
  return true;
}

// Looks at a byte that another thread may be writing. A data race, on purpose: GPUs do the same.
[[gnu::noinline, gnu::no_sanitize("thread")]] inline std::byte peek(const std::byte* at) {
  return *static_cast<const volatile std::byte*>(at);
}

struct Joined {
  Process* from = nullptr;
  Process* to = nullptr;
  Endpoint* sender = nullptr;
  Endpoint* receiver = nullptr;
  uint64_t listener = 0;
};

struct HandleBytes {
  alignas(8) std::byte bytes[Handle::kBytes]{};
  void* get() { return bytes; }
  Handle read() const { return Handle::read(bytes).value(); }
};

inline Endpoint* accept_one(Process& p, uint64_t listener) {
  Endpoint* e = nullptr;
  eventually([&] { return (e = p.accept(listener)) != nullptr; });
  return e;
}

inline Joined joined_by(Process& from, Process& to, uint64_t listener, const HandleBytes& handle) {
  Joined w{&from, &to, from.connect(handle.read(), {0}, &from), nullptr, listener};
  if (!w.sender) throw std::runtime_error("no way to the peer");
  eventually([&] { return state_of(w.sender) != Connection::State::connecting; });
  if (state_of(w.sender) != Connection::State::open) throw std::runtime_error(error_of(w.sender));
  w.receiver = accept_one(to, listener);
  if (!w.receiver) throw std::runtime_error("nobody to accept");
  return w;
}

inline Joined joined(Process& from, Process& to) {
  HandleBytes handle;
  uint64_t listener = to.listen({0}, &to, handle.get());
  return joined_by(from, to, listener, handle);
}

// Sends messages of these sizes, eight under way, and checks every byte. Answers what went wrong, or nothing.
inline std::string carry(const Joined& w, const std::vector<std::size_t>& sizes, unsigned seed = 1) {
  constexpr std::size_t kUnderWay = 8;
  struct Slot {
    std::vector<std::byte> data, there;
    Request *send = nullptr, *receive = nullptr;
  };
  std::vector<Slot> slots(kUnderWay);
  std::size_t begun_sending = 0, begun_receiving = 0, done_sending = 0, done_receiving = 0;
  auto fresh = [&](std::size_t i) {
    Slot& s = slots[i % kUnderWay];
    s.data = pattern(sizes[i], seed + static_cast<unsigned>(i));
    s.there.assign(sizes[i] + 1, std::byte{0xa5});
  };
  std::string wrong;
  bool all = eventually(
      [&] {
        std::size_t done = std::min(done_sending, done_receiving);
        while (begun_sending < sizes.size() && begun_sending < done + kUnderWay &&
               begun_receiving >= begun_sending) {
          Slot& s = slots[begun_sending % kUnderWay];
          if (begun_receiving == begun_sending) {
            fresh(begun_sending);
            if (!(s.receive = post_receive(w.receiver, s.there.data(), s.there.size()))) break;
            begun_receiving++;
          }
          if (!(s.send = post_send(w.sender, s.data.data(), s.data.size()))) break;
          begun_sending++;
        }
        while (done_receiving < begun_receiving &&
               finished(w.receiver, slots[done_receiving % kUnderWay].receive)) {
          Slot& s = slots[done_receiving % kUnderWay];
          if (s.receive->size != s.data.size() ||
              !std::equal(s.data.begin(), s.data.end(), s.there.begin()) || s.there.back() != std::byte{0xa5})
            wrong = "message " + std::to_string(done_receiving) + " came with other bytes";
          done_receiving++;
        }
        while (done_sending < begun_sending && done_sending < done_receiving &&
               finished(w.sender, slots[done_sending % kUnderWay].send))
          done_sending++;
        for (Endpoint* e : {w.sender, w.receiver})
          if (wrong.empty() && state_of(e) == Connection::State::failed) wrong = error_of(e);
        return !wrong.empty() || done_sending == sizes.size();
      },
      120s);
  if (!wrong.empty()) return wrong;
  return all ? "" : "only " + std::to_string(done_sending) + " messages in time";
}

// ---- what an administrator, or a bad day, does to a process

inline int entries(const char* folder) {
  int n = 0;
  if (DIR* d = opendir(folder)) {
    while (readdir(d)) n++;
    closedir(d);
  }
  return n;
}
inline int descriptors() { return entries("/proc/self/fd"); }
inline int threads() { return entries("/proc/self/task"); }

// Cuts every established TCP connection of this program, as `ss -K` does for a host.
inline int cut_connections() {
  int cut = 0;
  for (int fd = 3; fd < 4096; fd++) {
    sockaddr_storage a{};
    socklen_t n = sizeof a;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&a), &n)) continue;
    if (a.ss_family == AF_INET || a.ss_family == AF_INET6) cut += !shutdown(fd, SHUT_RDWR);
  }
  return cut;
}

// The log lines of a scope.
class Logged {
 public:
  Logged() {
    lines().clear();
    log_to([](Level, const char* line) {
      std::lock_guard lock(mutex());
      lines() += line;
      lines() += '\n';
    });
  }
  ~Logged() { log_to(nullptr); }
  bool has(const std::string& words) const {
    std::lock_guard lock(mutex());
    return lines().find(words) != std::string::npos;
  }
  std::string all() const {
    std::lock_guard lock(mutex());
    return lines();
  }

 private:
  static std::string& lines() {
    static std::string s;
    return s;
  }
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
};

}  // namespace megascale
