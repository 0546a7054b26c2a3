// Sections B.4 and B.5 of the contract: connecting without ever blocking, memory that is registered and taken
// away at any time, and ends of every kind.
#include <atomic>

#include "tests/unit/plugin/loaded.h"

namespace megascale::plugin_test {
namespace {

// No call may wait for the other end: many of each kind in far less time than one wait would take. (The bound
// is for a crowded machine; one wait would be thousands of calls long.)
PLUGIN_TEST(Contract_B4, ConnectNeverBlocks) {
  setenv("MEGASCALE_CONNECT_TIMEOUT", "600s", 1);
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
  // An address that answers nothing (RFC 5737), so that only the deadline could end it.
  for (int i = 0; i < 4; i++) h.bytes[41 + i] = static_cast<unsigned char>("\xcb\x00\x71\x01"[i]);
  h.bytes[12] = h.bytes[13] = 1;
  auto begun = Clock::now();
  int calls = 0;
  for (; calls < 2000; calls++) {
    void* sc = kStale;
    abi::Result r = s.net->connect(s.context, 0, h.bytes, &sc, nullptr);
    ASSERT_EQ(sc, nullptr);
    if (r != abi::kSuccess) break;  // the kernel may know that there is no route
  }
  EXPECT_GT(calls, 0);
  EXPECT_LT(Clock::now() - begun, 20s);
}

PLUGIN_TEST(Contract_B4, AcceptNeverBlocks) {
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  auto begun = Clock::now();
  for (int i = 0; i < 2000; i++) {
    void* rc = kStale;
    abi::DeviceHandle* offload = reinterpret_cast<abi::DeviceHandle*>(kStale);
    ASSERT_EQ(s.net->accept(lc, &rc, &offload), abi::kSuccess);
    ASSERT_EQ(rc, nullptr);
    ASSERT_EQ(offload, nullptr);
  }
  EXPECT_LT(Clock::now() - begun, 20s);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

// The first connect cannot be done at once, and says so by null; the caller's copy of the handle carries on.
PLUGIN_TEST(Contract_B4, ConnectIsPolledWithTheSameHandle) {
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  void* sc = kStale;
  Handle mine = h;
  ASSERT_EQ(s.net->connect(s.context, 0, mine.bytes, &sc, nullptr), abi::kSuccess);
  EXPECT_EQ(sc, nullptr);
  sc = s.connect(mine);
  ASSERT_TRUE(sc);
  Handle other = h;  // another caller with its own copy: a connection of its own
  void* second = s.connect(other);
  EXPECT_NE(second, sc);
  void *a = s.accept(lc), *b = s.accept(lc);
  EXPECT_NE(a, b);
  for (void* c : {sc, second}) EXPECT_EQ(s.net->closeSend(c), abi::kSuccess);
  for (void* c : {a, b}) EXPECT_EQ(s.net->closeRecv(c), abi::kSuccess);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

PLUGIN_TEST(Contract_B4, AHandleIs128BytesAndNoMore) {
  Stay s;
  struct {
    Handle h;
    unsigned char behind[64];
  } guarded;
  memset(&guarded, 0x5c, sizeof guarded);
  void* lc = nullptr;
  ASSERT_EQ(s.net->listen(s.context, 0, guarded.h.bytes, &lc), abi::kSuccess);
  void* sc = s.connect(guarded.h);
  for (unsigned char b : guarded.behind) EXPECT_EQ(b, 0x5c);
  EXPECT_EQ(s.net->closeSend(sc), abi::kSuccess);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

// NCCL has no timeout of its own here.
PLUGIN_TEST(Contract_B4, ConnectHasItsOwnDeadline) {
  setenv("MEGASCALE_CONNECT_TIMEOUT", "500ms", 1);
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  for (int i = 0; i < 4; i++) h.bytes[41 + i] = static_cast<unsigned char>("\xcb\x00\x71\x01"[i]);
  h.bytes[12] = h.bytes[13] = 1;
  abi::Result r = abi::kSuccess;
  void* sc = nullptr;
  ASSERT_TRUE(eventually([&] {
    sc = kStale;
    return (r = s.net->connect(s.context, 0, h.bytes, &sc, nullptr)) != abi::kSuccess;
  }));
  EXPECT_EQ(r, abi::kRemoteError);
  EXPECT_EQ(sc, nullptr) << "Trap_B4: never an error together with a comm";
  EXPECT_TRUE(Log::has("203.0.113.1")) << Log::all();
  EXPECT_EQ(s.net->closeSend(sc), abi::kSuccess);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

PLUGIN_TEST(Contract_B4, AcceptHasItsOwnDeadline) {
  setenv("MEGASCALE_CONNECT_TIMEOUT", "300ms", 1);
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  abi::Result r = abi::kSuccess;
  void* rc = nullptr;
  ASSERT_TRUE(eventually([&] {
    rc = kStale;
    return (r = s.net->accept(lc, &rc, nullptr)) != abi::kSuccess;
  }));
  EXPECT_EQ(r, abi::kRemoteError);
  EXPECT_EQ(rc, nullptr) << "Trap_B4: never an error together with a comm";
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

// What is failed is closed again by NCCL, with null; so is what was never there.
PLUGIN_TEST(Trap_B4, CloseAndDeregisterOfNull) {
  Stay s;
  Pair p(s);
  EXPECT_EQ(s.net->closeSend(nullptr), abi::kSuccess);
  EXPECT_EQ(s.net->closeRecv(nullptr), abi::kSuccess);
  EXPECT_EQ(s.net->closeListen(nullptr), abi::kSuccess);
  EXPECT_EQ(s.net->deregMr(p.sending, nullptr), abi::kSuccess);
  EXPECT_EQ(s.net->deregMr(nullptr, nullptr), abi::kSuccess);
  EXPECT_TRUE(p.works());
}

PLUGIN_TEST(Contract_B4, AListenIsClosedWithoutAnyAccept) {
  Stay s;
  int d = descriptors();
  for (int i = 0; i < 20; i++) {
    Handle h;
    void* lc = s.listen(h);
    ASSERT_TRUE(lc);
    EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
  }
  EXPECT_EQ(descriptors(), d);
}

// Who connected to it meanwhile learns of it, instead of waiting for ever.
PLUGIN_TEST(Contract_B4, AListenClosedUnderASenderEndsTheSender) {
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  void* sc = s.connect(h);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
  std::vector<std::byte> data(100'000);
  void* request = nullptr;
  abi::Result r = abi::kSuccess;
  ASSERT_TRUE(eventually([&] {
    int done = 0;
    if (!request) r = s.net->isend(sc, data.data(), data.size(), 0, nullptr, nullptr, &request);
    else r = s.net->test(request, &done, nullptr);
    EXPECT_FALSE(done);
    return r != abi::kSuccess;
  }));
  EXPECT_EQ(r, abi::kRemoteError);
  EXPECT_EQ(s.net->closeSend(sc), abi::kSuccess);
}

// A communicator that dies while connecting closes nothing: finalize has to.
PLUGIN_TEST(Contract_B4, FinalizeReapsWhatIsHalfOpen) {
  { Stay warm; }
  int t = threads(), d = descriptors();
  {
    Stay other(1);
    int begun = 0;
    {
      Stay s(2);
      Handle h, used, attempted;
      s.listen(h);
      s.listen(used);
      attempted = used;
      void* sc = nullptr;
      EXPECT_EQ(s.net->connect(s.context, 0, attempted.bytes, &sc, nullptr), abi::kSuccess);  // just begun
      s.connect(used);  // never accepted
      begun = descriptors();
    }
    EXPECT_TRUE(eventually([&] { return descriptors() < begun; }))
        << "reaped while another communicator stays";
  }
  EXPECT_EQ(threads(), t);
  EXPECT_EQ(descriptors(), d);
}

// ---- memory

PLUGIN_TEST(Contract_B5, RegionsOverlapRepeatAndAreNotAligned) {
  Stay s;
  Pair p(s);
  auto data = pattern(100'003, 3);
  std::vector<std::byte> there(data.size());
  std::vector<void*> regions;
  for (std::size_t at : {0, 1, 7, 4096, 0, 1}) {
    void* mh = kStale;
    ASSERT_EQ(s.net->regMr(p.receiving, there.data() + at, there.size() - at, abi::kPtrHost, &mh),
              abi::kSuccess);
    regions.push_back(mh);
  }
  void* r = p.receive(there.data() + 3, 50'001, regions[1]);
  void* q = p.send(data.data() + 5, 50'001);
  ASSERT_TRUE(r && q);
  EXPECT_EQ(p.finish(r), 50'001);
  EXPECT_EQ(p.finish(q), 50'001);
  EXPECT_EQ(memcmp(there.data() + 3, data.data() + 5, 50'001), 0);
  for (void* mh : regions) EXPECT_EQ(s.net->deregMr(p.receiving, mh), abi::kSuccess);
  EXPECT_TRUE(p.works()) << "memory that nothing used is no reason to end";
}

PLUGIN_TEST(Contract_B5, GpuMemoryIsRefusedAndTheHandleIsNull) {
  Stay s;
  Pair p(s);
  std::byte b[64];
  void* mh = kStale;
  EXPECT_NE(s.net->regMr(p.sending, b, sizeof b, abi::kPtrCuda, &mh), abi::kSuccess);
  EXPECT_EQ(mh, nullptr);
  EXPECT_EQ(s.net->deregMr(p.sending, mh), abi::kSuccess);
  EXPECT_EQ(s.net->regMrDmaBuf, nullptr) << "or NCCL would offer it";
}

// On abort memory is deregistered and freed while it is being written to. The message may have arrived whole
// before this thread comes to take the memory away; then the next attempt may be quicker.
PLUGIN_TEST(Contract_B5, DeregisterInFlightUnderAReceive) {
  Stay s;
  auto data = pattern(64 << 20, 3);
  int result = 0;
  for (int attempt = 0; attempt < 50 && result != -2; ++attempt) {
    Pair p(s);
    std::vector<std::byte> there(data.size());
    void* mh = nullptr;
    ASSERT_EQ(s.net->regMr(p.receiving, there.data(), there.size(), abi::kPtrHost, &mh), abi::kSuccess);
    void* r = p.receive(there.data(), there.size(), mh);
    void* q = p.send(data.data(), data.size());
    ASSERT_TRUE(r && q);
    ASSERT_TRUE(eventually([&] {
      p.test(q);
      p.test(r);
      return peek(&there[0]) == data[0] && peek(&there[1]) == data[1] && peek(&there[2]) == data[2];
    }));
    EXPECT_EQ(s.net->deregMr(p.receiving, mh), abi::kSuccess) << "it never fails";
    std::fill(there.begin(), there.end(), std::byte{0x77});  // it is the caller's again
    auto end = Clock::now() + 300ms;
    while (Clock::now() < end) p.test(q);
    EXPECT_TRUE(std::all_of(there.begin(), there.end(), [](std::byte b) { return b == std::byte{0x77}; }));
    result = p.finish(r);
    EXPECT_TRUE(result == -2 || result == static_cast<int>(data.size())) << result;
  }
  EXPECT_EQ(result, -2) << "what it was for never finishes, and says so";
}

PLUGIN_TEST(Contract_B5, DeregisterInFlightUnderASend) {
  setenv("MEGASCALE_RATE_LIMIT", "100M", 1);  // 5 s for all of it: surely in flight, however slow the machine
  Stay s;
  Pair p(s);
  auto data = std::make_unique<std::vector<std::byte>>(pattern(64 << 20, 3));
  void *mh = nullptr, *other = nullptr;
  ASSERT_EQ(s.net->regMr(p.sending, data->data(), data->size(), abi::kPtrHost, &mh), abi::kSuccess);
  ASSERT_EQ(s.net->regMr(p.sending, data->data(), 1, abi::kPtrHost, &other), abi::kSuccess);
  std::vector<std::byte> there(data->size());
  void* r = p.receive(there.data(), there.size());
  void* q = p.send(data->data(), data->size(), mh);
  ASSERT_TRUE(r && q);
  EXPECT_EQ(s.net->deregMr(p.sending, other), abi::kSuccess) << "nothing was sent from this one";
  EXPECT_EQ(p.test(q), -1);
  EXPECT_EQ(s.net->deregMr(p.sending, mh), abi::kSuccess);
  data.reset();  // to touch it now would be found by a sanitizer, or be fatal
  auto end = Clock::now() + 300ms;
  while (Clock::now() < end) p.test(r);
  EXPECT_EQ(p.test(q), -2);
  EXPECT_EQ(p.finish(r), -2) << "the other end learns of it";
}

// Registration runs on another thread than the data, on the same comm, at the same time.
PLUGIN_TEST(Contract_B1, RegistrationIsConcurrentWithTraffic) {
  Stay s;
  Pair p(s);
  std::atomic<bool> over{false};
  std::atomic<int> rounds{0};
  std::thread service([&] {
    std::vector<std::byte> memory(1 << 16);
    while (!over) {
      for (void* comm : {p.sending, p.receiving}) {
        void *a = nullptr, *b = nullptr;
        if (s.net->regMr(comm, memory.data(), memory.size(), abi::kPtrHost, &a) != abi::kSuccess ||
            s.net->regMr(comm, memory.data() + 100, 1000, abi::kPtrHost, &b) != abi::kSuccess ||
            s.net->deregMr(comm, a) != abi::kSuccess || s.net->deregMr(comm, b) != abi::kSuccess)
          ADD_FAILURE() << "registration failed";
      }
      rounds++;
    }
  });
  EXPECT_EQ(proxied(p, std::vector<std::size_t>(300, 70'000)), "");
  EXPECT_TRUE(eventually([&] { return rounds > 10; }));
  over = true;
  service.join();
}

PLUGIN_TEST(Contract_B1, SeveralCommunicatorsAtOnce) {
  std::vector<std::thread> ranks;
  for (unsigned i = 0; i < 4; i++)
    ranks.emplace_back([i] {
      for (int round = 0; round < 3; round++) {
        Stay s(100 + i);
        Pair p(s, static_cast<int>(i % 2));
        std::vector<std::size_t> sizes;
        for (std::size_t k = 0; k < 60; k++) sizes.push_back(k * 1031 % 40'000);
        if (auto wrong = proxied(p, sizes, i); !wrong.empty()) ADD_FAILURE() << wrong;
      }
    });
  for (auto& t : ranks) t.join();
}

// Attributes are set by two threads, one of which moves the data.
PLUGIN_TEST(Contract_B1, SetNetAttrRaces) {
  Stay s;
  Pair p(s);
  std::atomic<bool> over{false};
  std::vector<std::thread> setters;
  for (int i = 0; i < 2; i++)
    setters.emplace_back([&, i] {
      abi::NetAttr a{{i, i, i, i}, {i, i, i, i}, 1u << i, 1u << i, 1u << i};
      while (!over) s.net->setNetAttr(s.context, &a);
    });
  EXPECT_EQ(proxied(p, std::vector<std::size_t>(100, 5000)), "");
  over = true;
  for (auto& t : setters) t.join();
}

// Many threads ask for properties, once a connection, while devices() is asked, too.
PLUGIN_TEST(Contract_B1, PropertiesAreAskedFromManyThreads) {
  Stay s;
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; i++)
    askers.emplace_back([&] {
      for (int k = 0; k < 2000; k++) {
        abi::PropertiesV12 p;
        int n = 0;
        if (s.net->getProperties(k % 2, &p) != abi::kSuccess || s.net->devices(&n) != abi::kSuccess || n != 2)
          ADD_FAILURE();
      }
    });
  for (auto& t : askers) t.join();
}

// close must not wait for the peer, whatever is under way.
PLUGIN_TEST(Contract_B11, CloseDoesNotWaitForThePeer) {
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  void* sc = s.connect(h);
  void* rc = s.accept(lc);
  auto data = pattern(32 << 20, 1);
  void* request = nullptr;
  ASSERT_EQ(s.net->isend(sc, data.data(), data.size(), 0, nullptr, nullptr, &request), abi::kSuccess);
  auto begun = Clock::now();
  EXPECT_EQ(s.net->closeSend(sc), abi::kSuccess);  // nobody has posted a receive, nobody ever will
  EXPECT_LT(Clock::now() - begun, 5s);
  std::vector<std::byte> there(1000);
  void *to = there.data(), *mh = nullptr, *r = nullptr;
  std::size_t n = there.size();
  int tag = 0;
  abi::Result result = abi::kSuccess;
  ASSERT_TRUE(eventually([&] {
    int done = 0;
    result = r ? s.net->test(r, &done, nullptr) : s.net->irecv(rc, 1, &to, &n, &tag, &mh, nullptr, &r);
    return result != abi::kSuccess;
  })) << "and the receiver learns that nothing will come";
  EXPECT_EQ(result, abi::kRemoteError);
  EXPECT_EQ(s.net->closeRecv(rc), abi::kSuccess);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

}  // namespace
}  // namespace megascale::plugin_test
