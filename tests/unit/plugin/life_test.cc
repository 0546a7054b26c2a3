// Section A of the contract: how the library is found and chosen, how its users are counted, and what it
// leaves behind.
#include <sched.h>
#include <signal.h>

#include <iostream>

#include "tests/unit/plugin/loaded.h"
#include "tests/unit/transport/base/scratch.h"

namespace megascale::plugin_test {
namespace {

// The first hit wins, newest first: each version must do by itself, and carry data.
template <class Net>
void carries(int version) {
  const Net* net = table<Net>(open_library(), version);
  EXPECT_STREQ(net->name, "Megascale");
  void* context = nullptr;
  abi::CommConfig config{-1};
  abi::Result begun;
  if constexpr (requires { net->finalize; }) begun = net->init(&context, 1, &config, Log::write, nullptr);
  else if constexpr (requires { net->init(Log::write, nullptr); }) begun = net->init(Log::write, nullptr);
  else begun = net->init(Log::write);
  ASSERT_EQ(begun, abi::kSuccess);
  int n = 0;
  ASSERT_EQ(net->devices(&n), abi::kSuccess);
  ASSERT_EQ(n, 2);

  Handle h{};
  void *lc = nullptr, *sc = nullptr, *rc = nullptr;
  abi::DeviceHandle* offload = nullptr;
  if constexpr (requires { net->finalize; }) begun = net->listen(context, 0, h.bytes, &lc);
  else begun = net->listen(0, h.bytes, &lc);
  ASSERT_EQ(begun, abi::kSuccess);
  ASSERT_TRUE(eventually([&] {
    abi::Result r;
    if constexpr (requires { net->finalize; }) r = net->connect(context, 0, h.bytes, &sc, &offload);
    else if constexpr (requires { net->connect(0, &config, h.bytes, &sc, &offload); })
      r = net->connect(0, &config, h.bytes, &sc, &offload);
    else r = net->connect(0, h.bytes, &sc, &offload);
    EXPECT_EQ(r, abi::kSuccess);
    return sc != nullptr;
  }));
  ASSERT_TRUE(eventually([&] { return net->accept(lc, &rc, &offload) == abi::kSuccess && rc; }));

  auto data = pattern(300'000, 5);
  std::vector<std::byte> there(data.size());
  void *to = there.data(), *send_mh = nullptr, *receive_mh = nullptr, *s = kStale, *r = nullptr;
  ASSERT_EQ(net->regMr(sc, data.data(), data.size(), abi::kPtrHost, &send_mh), abi::kSuccess);
  ASSERT_EQ(net->regMr(rc, there.data(), there.size(), abi::kPtrHost, &receive_mh), abi::kSuccess);
  int tag = 0;
  if constexpr (requires(int* sizes) { net->irecv(rc, 1, &to, sizes, &tag, &receive_mh, &r); }) {
    int size = static_cast<int>(there.size());
    ASSERT_EQ(net->irecv(rc, 1, &to, &size, &tag, &receive_mh, &r), abi::kSuccess);
    ASSERT_EQ(net->isend(sc, data.data(), size, 0, send_mh, &s), abi::kSuccess);
    void* nothing = kStale;
    EXPECT_NE(net->isend(sc, data.data(), -1, 0, send_mh, &nothing), abi::kSuccess) << "less than nothing";
    EXPECT_EQ(nothing, nullptr);
  } else if constexpr (requires(std::size_t * sizes) {
                         net->irecv(rc, 1, &to, sizes, &tag, &receive_mh, &r);
                       }) {
    std::size_t size = there.size();
    ASSERT_EQ(net->irecv(rc, 1, &to, &size, &tag, &receive_mh, &r), abi::kSuccess);
    ASSERT_EQ(net->isend(sc, data.data(), size, 0, send_mh, &s), abi::kSuccess);
  } else {
    std::size_t size = there.size();
    ASSERT_EQ(net->irecv(rc, 1, &to, &size, &tag, &receive_mh, nullptr, &r), abi::kSuccess);
    ASSERT_EQ(net->isend(sc, data.data(), size, 0, send_mh, nullptr, &s), abi::kSuccess);
  }
  ASSERT_TRUE(s && r);
  int got = 0, gave = 0, size = 0;
  ASSERT_TRUE(eventually([&] {
    if (!got) {
      EXPECT_EQ(net->test(r, &got, &size), abi::kSuccess);
    }
    if (!gave) {
      EXPECT_EQ(net->test(s, &gave, nullptr), abi::kSuccess);
    }
    return got && gave;
  }));
  EXPECT_EQ(size, 300'000);
  EXPECT_EQ(there, data);
  EXPECT_EQ(net->deregMr(sc, send_mh), abi::kSuccess);
  EXPECT_EQ(net->deregMr(rc, receive_mh), abi::kSuccess);
  EXPECT_EQ(net->closeSend(sc), abi::kSuccess);
  EXPECT_EQ(net->closeRecv(rc), abi::kSuccess);
  EXPECT_EQ(net->closeListen(lc), abi::kSuccess);
  if constexpr (requires { net->finalize; }) {
    EXPECT_EQ(net->finalize(context), abi::kSuccess);
  }
}

PLUGIN_TEST(Contract_A1, TheTableOfVersion8CarriesData) { carries<abi::NetV8>(8); }
PLUGIN_TEST(Contract_A1, TheTableOfVersion9CarriesData) { carries<abi::NetV9>(9); }
PLUGIN_TEST(Contract_A1, TheTableOfVersion10CarriesData) { carries<abi::NetV10>(10); }
PLUGIN_TEST(Contract_A1, TheTableOfVersion11CarriesData) { carries<abi::NetV11>(11); }
PLUGIN_TEST(Contract_A1, TheTableOfVersion12CarriesData) { carries<abi::NetV12>(12); }

// Which members may be null (B); all others must be there, finalize included.
template <class Net>
void is_complete(int version) {
  const Net* n = table<Net>(open_library(), version);
  EXPECT_TRUE(n->init && n->devices && n->getProperties && n->listen && n->connect && n->accept && n->regMr &&
              n->deregMr && n->isend && n->irecv && n->iflush && n->test && n->closeSend && n->closeRecv &&
              n->closeListen)
      << version;
  EXPECT_FALSE(n->irecvConsumed) << "it would be called with requests that are freed";
  if constexpr (requires { n->finalize; }) {
    EXPECT_TRUE(n->finalize);
  }
}
PLUGIN_TEST(Contract_B, TablesAreComplete) {
  is_complete<abi::NetV8>(8);
  is_complete<abi::NetV9>(9);
  is_complete<abi::NetV10>(10);
  is_complete<abi::NetV11>(11);
  is_complete<abi::NetV12>(12);
}

// NCCL 2.28 calls finalize although init failed, with null.
PLUGIN_TEST(Trap_A3, FinalizeNull) {
  void* library = open_library();
  EXPECT_EQ(table<abi::NetV12>(library, 12)->finalize(nullptr), abi::kSuccess);
  EXPECT_EQ(table<abi::NetV11>(library, 11)->finalize(nullptr), abi::kSuccess);
  Stay s;
  ASSERT_EQ(s.result, abi::kSuccess);
  EXPECT_EQ(s.net->finalize(nullptr), abi::kSuccess);
  EXPECT_TRUE(Pair(s).works()) << "it took nobody's place in the count";
}

// A communicator whose init fails late uses another network than its peers, silently. So it does not fail:
// whatever the environment has become meanwhile, and whether others are still there or not.
PLUGIN_TEST(Trap_A3, ALateInitDoesNotFail) {
  auto spoil = [] {
    setenv("MEGASCALE_RAILS", "203.0.113.1", 1);
    setenv("MEGASCALE_SECRET_FILE", "/nowhere/at/all", 1);
  };
  {
    Stay first(1);
    ASSERT_EQ(first.result, abi::kSuccess);
    spoil();
    Stay second(2);
    EXPECT_EQ(second.result, abi::kSuccess);
    EXPECT_TRUE(Pair(second).works());
  }
  Stay third(3);
  EXPECT_EQ(third.result, abi::kSuccess) << Log::all();
  int n = 0;
  EXPECT_EQ(third.net->devices(&n), abi::kSuccess);
  EXPECT_EQ(n, 2) << "devices keep their numbers";
  EXPECT_TRUE(Pair(third).works());
}

// NCCL never compares the networks of two ranks. The handle does.
PLUGIN_TEST(Trap_A3, AForeignHandleIsRejectedLoudly) {
  Stay s;
  Handle foreign{};
  foreign.bytes[0] = 2;  // as a sockaddr begins: what NCCL's own transports send
  void* sc = kStale;
  EXPECT_EQ(s.net->connect(s.context, 0, foreign.bytes, &sc, nullptr), abi::kInvalidUsage);
  EXPECT_EQ(sc, nullptr);
  EXPECT_TRUE(Log::has("was not made by Megascale")) << Log::all();
  Handle newer;
  void* lc = s.listen(newer);
  newer.bytes[8] += 1;
  sc = kStale;
  EXPECT_EQ(s.net->connect(s.context, 0, newer.bytes, &sc, nullptr), abi::kInvalidUsage);
  EXPECT_EQ(sc, nullptr);
  EXPECT_TRUE(Log::has("protocol version")) << Log::all();
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

// Without any device NCCL is to go on to the next network: that is success with none.
PLUGIN_TEST(Contract_A3, NoDeviceIsSuccessWithNone) {
  unsetenv("MEGASCALE_RAILS");
  if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
    GTEST_SKIP() << "no namespace without interfaces can be made here: " << strerror(errno);
  Stay s;
  EXPECT_EQ(s.result, abi::kSuccess);
  int n = -1;
  EXPECT_EQ(s.net->devices(&n), abi::kSuccess);
  EXPECT_EQ(n, 0);
  EXPECT_TRUE(Log::has("no device can be used")) << Log::all();
  Handle h;
  void* lc = kStale;
  EXPECT_NE(s.net->listen(s.context, 0, h.bytes, &lc), abi::kSuccess);
  EXPECT_EQ(lc, nullptr);
}

PLUGIN_TEST(Contract_A3, RailsThatDoNotExistAreAnErrorNotACrash) {
  for (const char* wrong : {"203.0.113.1", "elephant", ",", "127.0.0.1,127.0.0.1"}) {
    setenv("MEGASCALE_RAILS", wrong, 1);
    Stay s;
    EXPECT_EQ(s.result, abi::kInvalidUsage) << wrong;
    EXPECT_EQ(s.context, nullptr);
    int n = -1;
    EXPECT_EQ(s.net->devices(&n), abi::kSuccess);
    EXPECT_EQ(n, 0);
    EXPECT_EQ(s.net->finalize(s.context), abi::kSuccess) << "as NCCL 2.28 does";
  }
  EXPECT_TRUE(Log::has("MEGASCALE_RAILS"));
  setenv("MEGASCALE_RAILS", "127.0.0.1", 1);
  Stay s;
  EXPECT_EQ(s.result, abi::kSuccess) << "what was wrong is not kept";
}

PLUGIN_TEST(Contract_A3, UnknownSettingsAreNamedOnce) {
  setenv("MEGASCALE_FLAP_TIMOUT", "3s", 1);
  setenv("MEGASCALE_FLAP_DETECT", "a while", 1);
  Stay a(1), b(2);
  EXPECT_EQ(a.result, abi::kSuccess);
  auto count = [](const std::string& words) {
    std::size_t n = 0;
    auto all = Log::all();
    for (std::size_t at = 0; (at = all.find(words, at)) != std::string::npos; at++) n++;
    return n;
  };
  EXPECT_EQ(count("MEGASCALE_FLAP_TIMOUT"), 1u) << Log::all();
  EXPECT_EQ(count("MEGASCALE_FLAP_DETECT="), 1u) << Log::all();
}

PLUGIN_TEST(Contract_A3, ASecretThatCannotBeReadStartsNothing) {
  setenv("MEGASCALE_SECRET_FILE", "/nowhere/at/all", 1);
  Stay s;
  EXPECT_EQ(s.result, abi::kInvalidUsage) << "rather than to trust everybody";
  EXPECT_TRUE(Log::has("/nowhere/at/all")) << Log::all();
}

PLUGIN_TEST(Contract_A4, UsersAreCounted) {
  { Stay warm; }  // a sanitizer starts a thread of its own with the first
  int before = threads();
  void* library = open_library();
  auto* net = table<abi::NetV12>(library, 12);
  void* contexts[3] = {};
  for (auto& c : contexts) ASSERT_EQ(net->init(&c, 9, nullptr, Log::write, nullptr), abi::kSuccess);
  EXPECT_TRUE(contexts[0] != contexts[1] && contexts[1] != contexts[2] && contexts[0] != contexts[2])
      << "several ranks of one communicator are several contexts";
  EXPECT_EQ(threads(), before + 1) << "one thread, whatever the number of users";
  EXPECT_EQ(net->finalize(contexts[0]), abi::kSuccess);
  EXPECT_EQ(net->finalize(contexts[1]), abi::kSuccess);
  EXPECT_EQ(threads(), before + 1);
  EXPECT_EQ(net->finalize(contexts[2]), abi::kSuccess);
  EXPECT_EQ(threads(), before);
}

// One rank's end must not touch the connections of another rank of the same communicator.
PLUGIN_TEST(Contract_A4, FinalizeEndsItsOwnConnectionsOnly) {
  Stay staying(5);
  Pair p(staying);
  {
    Stay going(5);
    Handle h;
    going.listen(h);
    going.connect(h);
  }
  EXPECT_TRUE(p.works(100'000));
}

PLUGIN_TEST(Contract_A4, NothingIsLeftBehind) {
  { Stay warm; }  // what libc opens once
  int t = threads(), d = descriptors();
  for (int i = 0; i < 10; i++) {
    Stay s;
    Pair p(s);
    EXPECT_TRUE(p.works(100'000));
  }
  EXPECT_EQ(threads(), t);
  EXPECT_EQ(descriptors(), d);
}

// Unloaded with everything still running, as a version up to 10 must be, which nobody finalizes.
PLUGIN_TEST(Contract_A4, UnloadingWithTrafficIsSurvived) {
  void* library = open_library();
  auto* net = table<abi::NetV10>(library, 10);
  ASSERT_EQ(net->init(Log::write, nullptr), abi::kSuccess);
  Handle h{};
  void *lc = nullptr, *sc = nullptr;
  ASSERT_EQ(net->listen(0, h.bytes, &lc), abi::kSuccess);
  ASSERT_EQ(net->connect(0, nullptr, h.bytes, &sc, nullptr), abi::kSuccess);
  EXPECT_EQ(dlclose(library), 0);
  std::this_thread::sleep_for(300ms);  // its thread goes on, in code that must still be there
  Stay again;
  EXPECT_EQ(again.result, abi::kSuccess);
  EXPECT_TRUE(Pair(again).works());
}

// A fork in the middle: the child starts afresh, and what it closes stays open for the parent.
PLUGIN_TEST(Contract_A4, AForkedChildStartsAfresh) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads after such a fork";
#endif
  Stay s;
  Pair p(s);
  ASSERT_TRUE(p.works());
  pid_t child = fork();
  if (child == 0) {
    bool fine = false;
    {
      Stay mine(2);
      fine = mine.result == abi::kSuccess && Pair(mine).works(50'000);
    }
    _exit(fine && !testing::Test::HasFailure() ? 0 : 1);
  }
  EXPECT_TRUE(p.works(200'000));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(p.works(200'000));
}

// What a forked child inherits would keep its dead parent's connections alive: the peer must see the death.
PLUGIN_TEST(Contract_A4, AParentsDeathIsSeenAlthoughItsChildLives) {
  int handles[2], leash[2];
  ASSERT_EQ(pipe(handles), 0);
  ASSERT_EQ(pipe(leash), 0);
  pid_t parent = fork();
  if (parent == 0) {
    close(leash[1]);
    Stay s;
    Handle h;
    void* lc = s.listen(h);
    if (write(handles[1], h.bytes, sizeof h.bytes) < 0) _exit(1);
    void* rc = s.accept(lc);
    if (fork() == 0) {
      char b;
      (void)!read(leash[0], &b, 1);
      _exit(0);
    }
    if (write(handles[1], &rc, 1) < 0) _exit(1);
    for (;;) pause();
  }
  close(leash[0]);
  Stay s;
  Handle h;
  ASSERT_EQ(read(handles[0], h.bytes, sizeof h.bytes), static_cast<ssize_t>(sizeof h.bytes));
  void* sc = s.connect(h);
  char ready;
  ASSERT_EQ(read(handles[0], &ready, 1), 1);
  std::vector<std::byte> data(1 << 20);
  void* request = kStale;
  ASSERT_EQ(s.net->isend(sc, data.data(), data.size(), 0, nullptr, nullptr, &request), abi::kSuccess);
  ASSERT_TRUE(request);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  auto begun = Clock::now();
  abi::Result r = abi::kSuccess;
  int done = 0;
  ASSERT_TRUE(eventually([&] { return (r = s.net->test(request, &done, nullptr)) != abi::kSuccess; }));
  std::cout << "known after " << std::chrono::duration<double>(Clock::now() - begun).count() * 1e3 << " ms\n";
  EXPECT_LT(Clock::now() - begun, 10s);
  EXPECT_EQ(r, abi::kRemoteError);
  EXPECT_TRUE(Log::has("process " + std::to_string(parent))) << Log::all();
  EXPECT_EQ(s.net->closeSend(sc), abi::kSuccess);
  close(leash[1]);
}

// ---- LL128, and the file itself

PLUGIN_TEST(Guest, LL128IsTurnedOffWhenTheUserSaidNothing) {
  Stay s;
  ASSERT_TRUE(getenv("NCCL_PROTO"));
  EXPECT_STREQ(getenv("NCCL_PROTO"), "^LL128");
  EXPECT_TRUE(Log::has("NCCL_PROTO")) << "and it is said: " << Log::all();
}

PLUGIN_TEST(Guest, TheUsersProtocolIsLeftAlone) {
  setenv("NCCL_PROTO", "LL128,Simple", 1);
  Stay s;
  EXPECT_STREQ(getenv("NCCL_PROTO"), "LL128,Simple");
  EXPECT_FALSE(Log::has("NCCL_PROTO"));
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* f = popen((command + " 2>/dev/null").c_str(), "r");
  char b[4096];
  while (f && fgets(b, sizeof b, f)) text += b;
  if (!f || pclose(f)) return "";
  return text;
}

std::string said_on_standard_error_by_a_stay() {
  testing::internal::CaptureStderr();
  { Stay s; }
  return testing::internal::GetCapturedStderr();
}

PLUGIN_TEST(Guest, ASummaryIsPrintedWhenTheConfigurationSaysSo) {
  const Scratch scratch;
  setenv("MEGASCALE_CONFIG", scratch.write("megascale.toml", "[megascale]\nsummary = true\n").c_str(), 1);
  const std::string said = said_on_standard_error_by_a_stay();
  EXPECT_NE(said.find("retrans"), std::string::npos) << said;
}

PLUGIN_TEST(Guest, EveryWordForNoLeavesTheSummaryOut) {
  setenv("MEGASCALE_SUMMARY", "off", 1);
  const std::string said = said_on_standard_error_by_a_stay();
  EXPECT_EQ(said.find("retrans"), std::string::npos) << said;
}

PLUGIN_TEST(Guest, ARateLimitIsSaidAtTheStart) {
  setenv("MEGASCALE_RATE_LIMIT", "10G", 1);
  Stay s;
  EXPECT_TRUE(Log::has("at most 10G bit/s a connection and rail")) << Log::all();
}

TEST(Guest, ExportsItsTablesAndNothingElse) {
  std::string out = output_of("nm -D --defined-only -P " + library_path());
  if (out.empty()) GTEST_SKIP() << "nm is not installed";
  std::string symbols;
  for (std::size_t at = 0; at < out.size(); at = out.find('\n', at) + 1)
    symbols += out.substr(at, out.find(' ', at) - at) + " ";
  EXPECT_EQ(symbols,
            "ncclNetPlugin_v10 ncclNetPlugin_v11 ncclNetPlugin_v12 ncclNetPlugin_v8 ncclNetPlugin_v9 ");
}

TEST(Guest, NeedsLibcAndLibmAndNothingElse) {
  std::string out = output_of("readelf -d -W " + library_path());
  if (out.empty()) GTEST_SKIP() << "readelf is not installed";
  std::string needed;
  for (std::size_t at = 0; (at = out.find("(NEEDED)", at)) != std::string::npos; at++) {
    std::size_t from = out.find('[', at) + 1;
    needed += out.substr(from, out.find(']', from) - from) + " ";
  }
  EXPECT_TRUE(needed == "libm.so.6 libc.so.6 " || needed == "libc.so.6 libm.so.6 ") << needed;
  EXPECT_NE(out.find("NODELETE"), std::string::npos);
}

}  // namespace
}  // namespace megascale::plugin_test
