// The plugin as NCCL has it: a library opened by name, whose tables are called raw. Each test runs in a child
// process of its own, so that it may set the environment, count threads, and leave nothing to the next.
#pragma once
#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "plugin/abi/net.h"

namespace megascale::plugin_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// ---- a child a test

inline constexpr int kSkipped = 77;

inline void in_child(void (*body)(), const char* rails) {
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    alarm(240);
    setenv("MEGASCALE_RAILS", rails, 1);
    setenv("MEGASCALE_LOG", "info", 1);
    unsetenv("NCCL_PROTO");
    unsetenv("NCCL_SOCKET_IFNAME");
    try {
      body();
    } catch (const std::exception& x) {  // gtest would catch it and run the other tests, here in the child
      ADD_FAILURE() << x.what();
    }
    std::cout.flush();
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : testing::Test::IsSkipped() ? kSkipped : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "see above";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the child " << (WIFSIGNALED(status) ? "died of signal " : "exited with ")
      << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

#define PLUGIN_TEST(suite, name)                                                          \
  static void suite##_##name##_in_child();                                                \
  TEST(suite, name) {                                                                     \
    ::megascale::plugin_test::in_child(suite##_##name##_in_child, "127.0.0.1,127.0.0.2"); \
  }                                                                                       \
  static void suite##_##name##_in_child()

// ---- the library

inline std::string library_path() {
  const char* p = getenv("PLUGIN_UNDER_TEST");
  return p ? p : "libnccl-net-megascale.so";
}

inline void* open_library() {
  void* l = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);  // as NCCL opens it
  if (!l) throw std::runtime_error(dlerror());
  return l;
}

template <class T>
const T* table(void* library, int version) {
  auto* t = static_cast<const T*>(dlsym(library, ("ncclNetPlugin_v" + std::to_string(version)).c_str()));
  if (!t) throw std::runtime_error("no table of version " + std::to_string(version));
  return t;
}

// What the plugin says through NCCL's logger.
class Log {
 public:
  struct Line {
    abi::LogLevel level;
    unsigned long flags;
    std::string file, text;
  };
  static void write(abi::LogLevel level, unsigned long flags, const char* file, int, const char* format,
                    ...) {
    char text[4096];
    va_list a;
    va_start(a, format);
    vsnprintf(text, sizeof text, format, a);
    va_end(a);
    std::lock_guard lock(mutex());
    lines().push_back({level, flags, file, text});
  }
  static bool has(const std::string& words) { return all().find(words) != std::string::npos; }
  static std::string all() {
    std::string r;
    std::lock_guard lock(mutex());
    for (auto& l : lines()) r += l.text + "\n";
    return r;
  }
  static std::vector<Line> copy() {
    std::lock_guard lock(mutex());
    return lines();
  }

 private:
  static std::vector<Line>& lines() {
    static std::vector<Line> l;
    return l;
  }
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
};

// ---- what a caller does over and over

// Looks at a byte that another thread may be writing. A data race, on purpose: GPUs do the same.
[[gnu::noinline, gnu::no_sanitize("thread")]] inline std::byte peek(const std::byte* at) {
  return *static_cast<const volatile std::byte*>(at);
}

inline bool eventually(const std::function<bool()>& condition, std::chrono::seconds limit = 60s) {
  for (auto end = Clock::now() + limit; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return condition();
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

inline void* const kStale = reinterpret_cast<void*>(0xdeadbeefdeadbeef);

struct Handle {
  alignas(8) unsigned char bytes[abi::kHandleSize];
};

// A communicator's stay in the plugin, by the newest table.
struct Stay {
  void* library = open_library();
  const abi::NetV12* net = table<abi::NetV12>(library, 12);
  void* context = nullptr;
  abi::Result result;

  explicit Stay(uint64_t communicator = 1) {
    abi::CommConfig config{-1};
    result = net->init(&context, communicator, &config, Log::write, nullptr);
  }
  ~Stay() {
    if (context) net->finalize(context);
    dlclose(library);
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

  void* listen(Handle& h, int device = 0) const {
    void* lc = kStale;
    memset(h.bytes, 0, sizeof h.bytes);
    EXPECT_EQ(net->listen(context, device, h.bytes, &lc), abi::kSuccess);
    return lc;
  }
  void* connect(Handle& h, int device = 0) const {
    void* sc = nullptr;
    abi::DeviceHandle* offload = nullptr;
    eventually([&] {
      sc = kStale;
      abi::Result r = net->connect(context, device, h.bytes, &sc, &offload);
      if (r != abi::kSuccess) throw std::runtime_error("connect: " + std::to_string(r) + "\n" + Log::all());
      return sc != nullptr;
    });
    return sc;
  }
  void* accept(void* lc) const {
    void* rc = nullptr;
    abi::DeviceHandle* offload = nullptr;
    eventually([&] {
      rc = kStale;
      abi::Result r = net->accept(lc, &rc, &offload);
      if (r != abi::kSuccess) throw std::runtime_error("accept: " + std::to_string(r) + "\n" + Log::all());
      return rc != nullptr;
    });
    return rc;
  }
};

// One connection, both ends of it here.
struct Pair {
  const abi::NetV12* net;
  void *listening = nullptr, *sending = nullptr, *receiving = nullptr;

  explicit Pair(const Stay& s, int device = 0) : net(s.net) {
    Handle h;
    listening = s.listen(h, device);
    sending = s.connect(h, device);
    receiving = s.accept(listening);
  }
  ~Pair() {
    EXPECT_EQ(net->closeSend(sending), abi::kSuccess);
    EXPECT_EQ(net->closeRecv(receiving), abi::kSuccess);
    EXPECT_EQ(net->closeListen(listening), abi::kSuccess);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Null means "not now", which may be for a moment only: asked again for a while before it is believed.
  void* send(const void* data, std::size_t n, void* mhandle = nullptr) const {
    return insist([&](void** r) {
      *r = kStale;
      return net->isend(sending, const_cast<void*>(data), n, 0, mhandle, nullptr, r);
    });
  }
  void* receive(void* data, std::size_t n, void* mhandle = nullptr, void* hint = nullptr) const {
    return insist([&](void** r) {
      *r = hint;
      int tag = 0;
      return net->irecv(receiving, 1, &data, &n, &tag, &mhandle, nullptr, r);
    });
  }
  // The size, or -1: not done yet; -2: an error.
  int test(void* request) const {
    int done = 0x55, size = -1;
    if (net->test(request, &done, &size) != abi::kSuccess) return -2;
    EXPECT_TRUE(done == 0 || done == 1) << done;
    return done ? size : -1;
  }
  int finish(void* request) const {
    int size = -1;
    eventually([&] { return (size = test(request)) != -1; });
    return size;
  }
  // A message arrives in one piece.
  bool works(std::size_t n = 1000, unsigned seed = 7) const {
    auto data = pattern(n, seed);
    std::vector<std::byte> there(n);
    void *r = nullptr, *s = nullptr;
    if (!eventually([&] { return r || (r = receive(there.data(), n)); })) return false;
    if (!eventually([&] { return s || (s = send(data.data(), n)); })) return false;
    bool got = false, gave = false;
    return eventually([&] {
             if (!got) got = test(r) >= 0;
             if (!gave) gave = test(s) >= 0;
             return got && gave;
           }) &&
           there == data;
  }

 private:
  template <class Post>
  static void* insist(Post&& post) {
    void* r = nullptr;
    for (auto end = Clock::now() + 200ms; Clock::now() < end; std::this_thread::yield()) {
      EXPECT_EQ(post(&r), abi::kSuccess);
      if (r || testing::Test::HasFailure()) break;
    }
    return r;
  }
};

// As NCCL's proxy does it: eight under way each way, the oldest tested first. Answers what went wrong.
inline std::string proxied(const Pair& p, const std::vector<std::size_t>& sizes, unsigned seed = 1) {
  constexpr std::size_t kDepth = abi::kSteps;
  struct Step {
    std::vector<std::byte> data, there;
    void *send = kStale, *receive = kStale;
  };
  std::vector<Step> steps(kDepth);
  std::size_t posted = 0, sent = 0, received = 0, done = 0;
  std::string wrong;
  auto step = [&](std::size_t i) -> Step& { return steps[i % kDepth]; };
  bool all = eventually(
      [&] {
        if (posted < sizes.size() && posted < done + kDepth) {
          Step& s = step(posted);
          s.there.assign(sizes[posted] + 1, std::byte{0xa5});
          s.data = pattern(sizes[posted], seed + static_cast<unsigned>(posted));
          void* data = s.there.data();
          std::size_t capacity = s.there.size();
          int tag = 0;
          void* mhandle = nullptr;
          s.receive = kStale;
          if (p.net->irecv(p.receiving, 1, &data, &capacity, &tag, &mhandle, nullptr, &s.receive) !=
              abi::kSuccess)
            wrong = "irecv failed";
          if (s.receive) posted++;
        }
        if (sent < posted) {
          Step& s = step(sent);
          s.send = kStale;
          if (p.net->isend(p.sending, s.data.data(), s.data.size(), 0, nullptr, nullptr, &s.send) !=
              abi::kSuccess)
            wrong = "isend failed";
          if (s.send) sent++;
        }
        if (received < posted) {
          Step& s = step(received);
          if (int n = p.test(s.receive); n != -1) {
            if (n != static_cast<int>(s.data.size()) ||
                !std::equal(s.data.begin(), s.data.end(), s.there.begin()) ||
                s.there.back() != std::byte{0xa5})
              wrong = "message " + std::to_string(received) + " came with " + std::to_string(n) +
                      " bytes, or with others";
            received++;
          }
        }
        if (done < sent && done < received) {
          int n = p.test(step(done).send);
          if (n == -2) wrong = "a send failed";
          if (n >= 0) done++;
        }
        return done == sizes.size() || !wrong.empty();
      },
      120s);
  if (!wrong.empty()) return wrong + "\n" + Log::all();
  return all ? "" : "only " + std::to_string(done) + " messages in time";
}

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

}  // namespace megascale::plugin_test
