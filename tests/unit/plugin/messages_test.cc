// Sections B.6 to B.9 of the contract: sends, receives, tests and flushes, with whatever NCCL leaves in the
// variables that it passes.
#include <algorithm>

#include "tests/unit/plugin/loaded.h"

namespace megascale::plugin_test {
namespace {

PLUGIN_TEST(Contract_B6, MessagesOfEverySize) {
  Stay s;
  Pair p(s);
  EXPECT_EQ(proxied(p, {0, 1, 8, 31, 32, 33, 128, 4095, 4096, 4097, 65'536, 524'287, 524'289, 3 << 20, 0,
                        16 << 20, 2}),
            "");
}

// *request holds a stale pointer on entry: it is written always, interpreted never.
PLUGIN_TEST(Trap_B6, StaleRequestPointer) {
  Stay s;
  Pair p(s);
  std::vector<std::byte> data(64);
  std::vector<void*> requests;
  for (;;) {
    void* r = kStale;
    ASSERT_EQ(s.net->isend(p.sending, data.data(), data.size(), 0, nullptr, nullptr, &r), abi::kSuccess);
    ASSERT_NE(r, kStale);
    if (!r) break;  // none left: null, not the stale one
    requests.push_back(r);
    ASSERT_LT(requests.size(), 10'000u);
  }
  void* stale = requests[0];  // one of its own, even
  void* r = stale;
  ASSERT_EQ(s.net->isend(p.sending, data.data(), data.size(), 0, nullptr, nullptr, &r), abi::kSuccess);
  EXPECT_EQ(r, nullptr);
  r = kStale;
  void* flush = kStale;
  int size = 0;
  void* at = data.data();
  void* mh = nullptr;
  EXPECT_EQ(s.net->iflush(p.receiving, 1, &at, &size, &mh, &flush), abi::kSuccess);
  EXPECT_EQ(flush, nullptr) << "Contract_B9: nothing to flush, and no retry";
  std::vector<std::byte> there(64);
  for (std::size_t i = 0; i < requests.size(); i++) {
    void* q = nullptr;
    ASSERT_TRUE(
        eventually([&] { return (q = p.receive(there.data(), there.size(), nullptr, kStale)) != nullptr; }));
    EXPECT_NE(q, kStale);
    EXPECT_EQ(p.finish(q), 64);
    EXPECT_EQ(p.finish(requests[i]), 64);
  }
}

PLUGIN_TEST(Contract_B6, ZeroBytesMatchAReceive) {
  Stay s;
  Pair p(s);
  std::byte there[16]{};
  for (int i = 0; i < 50; i++) {
    void *r = p.receive(there, sizeof there), *q = p.send(nullptr, 0);
    ASSERT_TRUE(r && q);
    EXPECT_EQ(p.finish(r), 0);
    EXPECT_EQ(p.finish(q), 0);
  }
  void *r = p.receive(nullptr, 0), *q = p.send(nullptr, 0);
  ASSERT_TRUE(r && q);
  EXPECT_EQ(p.finish(r), 0);
  EXPECT_EQ(p.finish(q), 0);
}

// The sender's buffer is its own again when test says so, not before: what is changed after that does not
// arrive.
PLUGIN_TEST(Contract_B6, TheBufferIsFreeWhenTestSaysDone) {
  Stay s;
  Pair p(s);
  for (std::size_t n : {100, 4096, 5000, 1'000'000}) {
    auto data = pattern(n, 5), original = data;
    std::vector<std::byte> there(n);
    void* q = p.send(data.data(), n);
    ASSERT_TRUE(q);
    void* r = nullptr;
    if (p.test(q) != -1) {  // done before anybody received: then it was copied
      std::fill(data.begin(), data.end(), std::byte{0});
      q = nullptr;
    }
    r = p.receive(there.data(), n);
    ASSERT_TRUE(r);
    bool got = false;
    ASSERT_TRUE(eventually([&] {
      if (q && p.test(q) != -1) {
        std::fill(data.begin(), data.end(), std::byte{0});
        q = nullptr;
      }
      if (!got) got = p.test(r) != -1;
      return got && !q;
    }));
    EXPECT_EQ(there, original);
  }
}

// (void*)1 on entry of irecv: completion is optional. What comes out is a request or null, never 1.
PLUGIN_TEST(Trap_B7, OptionalCompletionHint) {
  Stay s;
  Pair p(s);
  auto data = pattern(500, 2);
  std::vector<std::byte> there(500);
  for (int i = 0; i < 100; i++) {
    void* r = p.receive(there.data(), there.size(), nullptr, abi::kOptionalRecvCompletion);
    ASSERT_NE(r, abi::kOptionalRecvCompletion);
    ASSERT_TRUE(r);
    void* q = p.send(data.data(), data.size());
    ASSERT_TRUE(q);
    EXPECT_EQ(p.finish(r), 500);
    EXPECT_EQ(p.finish(q), 500);
    EXPECT_EQ(there, data);
  }
  for (;;) {  // also when there is no room for another
    void* r = p.receive(there.data(), there.size(), nullptr, abi::kOptionalRecvCompletion);
    ASSERT_NE(r, abi::kOptionalRecvCompletion);
    if (!r) break;
  }
}

// Strictly first in, first out, whatever the tags say and whatever the sizes are.
PLUGIN_TEST(Contract_B7, MatchingIsFirstInFirstOut) {
  Stay s;
  Pair p(s);
  std::vector<std::vector<std::byte>> data, there;
  std::vector<void*> receives, sends;
  const std::size_t sizes[] = {300'000, 1, 70'000, 0, 4096, 200'000, 2, 4097};
  for (unsigned i = 0; i < 8; i++) {
    data.push_back(pattern(sizes[i], i));
    there.emplace_back(300'000);
  }
  for (unsigned i = 0; i < 8; i++) {
    void *to = there[i].data(), *mh = nullptr, *r = nullptr;
    std::size_t n = there[i].size();
    int tag = static_cast<int>(7 - i);
    ASSERT_EQ(s.net->irecv(p.receiving, 1, &to, &n, &tag, &mh, nullptr, &r), abi::kSuccess);
    ASSERT_TRUE(r);
    receives.push_back(r);
    void* q = nullptr;
    ASSERT_TRUE(eventually([&] {
      EXPECT_EQ(s.net->isend(p.sending, data[i].data(), sizes[i], static_cast<int>(i), nullptr, nullptr, &q),
                abi::kSuccess);
      return q != nullptr;
    }));
    sends.push_back(q);
  }
  for (unsigned i = 0; i < 8; i++) {
    int size = -1;
    ASSERT_TRUE(eventually([&] {
      p.test(sends[0]);
      return (size = p.test(receives[i])) != -1;
    }));
    EXPECT_EQ(size, static_cast<int>(sizes[i])) << i;
    EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(), there[i].begin())) << i;
  }
}

// sizes[] and data[] are on the caller's stack.
PLUGIN_TEST(Contract_B7, TheArraysAreCopied) {
  Stay s;
  Pair p(s);
  auto data = pattern(100'000, 1);
  std::vector<std::byte> there(data.size());
  void* r = nullptr;
  {
    void* to[1] = {there.data()};
    std::size_t n[1] = {there.size()};
    int tags[1] = {0};
    void* mhs[1] = {nullptr};
    ASSERT_EQ(s.net->irecv(p.receiving, 1, to, n, tags, mhs, nullptr, &r), abi::kSuccess);
    to[0] = nullptr;
    n[0] = 1;
  }
  ASSERT_TRUE(r);
  void* q = p.send(data.data(), data.size());
  EXPECT_EQ(p.finish(r), 100'000);
  EXPECT_EQ(p.finish(q), 100'000);
  EXPECT_EQ(there, data);
}

PLUGIN_TEST(Contract_B7, ASenderLargerThanTheCapacityIsAnErrorAtBothEnds) {
  for (std::size_t n : {200, 100'000}) {
    Stay s;
    Pair p(s);
    auto data = pattern(n, 1);
    std::vector<std::byte> there(n, std::byte{0x77});
    void* r = p.receive(there.data(), n / 2);
    void* q = p.send(data.data(), n);
    ASSERT_TRUE(r && q);
    EXPECT_EQ(p.finish(r), -2);
    abi::Result sender = abi::kSuccess;
    ASSERT_TRUE(eventually([&] {
      int done = 0;
      if (q) sender = s.net->test(q, &done, nullptr);
      if (done) q = nullptr;  // small and copied: then the next one tells
      if (!q) sender = s.net->isend(p.sending, data.data(), 1, 0, nullptr, nullptr, &q);
      return sender != abi::kSuccess;
    }));
    EXPECT_EQ(sender, abi::kRemoteError);
    EXPECT_EQ(std::count(there.begin() + static_cast<std::ptrdiff_t>(n / 2), there.end(), std::byte{0x77}),
              static_cast<std::ptrdiff_t>(n - n / 2))
        << "nothing is written behind the capacity";
    EXPECT_TRUE(Log::has("has room for " + std::to_string(n / 2))) << Log::all();
  }
}

PLUGIN_TEST(Contract_B7, AGroupLargerThanMaxRecvsIsRefused) {
  Stay s;
  Pair p(s);
  std::byte a[16], b[16];
  void *to[] = {a, b}, *mhs[] = {nullptr, nullptr}, *r = kStale;
  std::size_t sizes[] = {16, 16};
  int tags[] = {0, 1};
  EXPECT_NE(s.net->irecv(p.receiving, 2, to, sizes, tags, mhs, nullptr, &r), abi::kSuccess);
  EXPECT_EQ(r, nullptr);
  EXPECT_TRUE(p.works());
}

// Eight of each today; the promise is thirty-two. Beyond that null, and never an error; and what was null
// goes through later.
PLUGIN_TEST(Contract_B7, ThirtyTwoAreOutstandingAndExhaustionIsNull) {
  Stay s;
  Pair p(s);
  constexpr std::size_t kSize = 10'000;
  std::vector<std::vector<std::byte>> there;
  auto data = pattern(kSize, 1);
  std::vector<void*> receives, sends;
  for (;;) {
    there.emplace_back(kSize);
    void* r = p.receive(there.back().data(), kSize);
    if (!r) break;
    receives.push_back(r);
    ASSERT_LT(receives.size(), 10'000u);
  }
  EXPECT_GE(receives.size(), static_cast<std::size_t>(abi::kMaxRequests));
  for (;;) {
    void* q = p.send(data.data(), kSize);
    if (!q) break;
    sends.push_back(q);
    if (sends.size() == receives.size()) break;
  }
  EXPECT_GE(sends.size(), static_cast<std::size_t>(abi::kMaxRequests));
  for (std::size_t i = 0; i < sends.size(); i++) {
    ASSERT_EQ(p.finish(receives[i]), static_cast<int>(kSize));
    ASSERT_EQ(p.finish(sends[i]), static_cast<int>(kSize));
  }
  for (std::size_t i = sends.size(); i < receives.size(); i++) {
    void* q = nullptr;
    ASSERT_TRUE(eventually([&] { return (q = p.send(data.data(), kSize)) != nullptr; }));
    ASSERT_EQ(p.finish(receives[i]), static_cast<int>(kSize));
    ASSERT_EQ(p.finish(q), static_cast<int>(kSize));
  }
  EXPECT_TRUE(p.works());
}

// With nobody receiving, sends are taken up to a bound, then null; nothing fails and nothing is lost.
PLUGIN_TEST(Contract_B7, ASlowReceiverIsNotOverrun) {
  Stay s;
  Pair p(s);
  std::vector<void*> sends;
  std::vector<std::vector<std::byte>> data;
  for (;;) {
    data.push_back(pattern(sends.size() % 3 ? 2000 : 20'000, static_cast<unsigned>(sends.size())));
    void* q = p.send(data.back().data(), data.back().size());
    if (!q) break;
    sends.push_back(q);
    ASSERT_LT(sends.size(), 10'000u);
  }
  std::this_thread::sleep_for(200ms);
  std::vector<std::byte> there(20'000);
  for (std::size_t i = 0; i < sends.size(); i++) {
    void* r = nullptr;
    ASSERT_TRUE(eventually([&] { return (r = p.receive(there.data(), there.size())) != nullptr; }));
    ASSERT_EQ(p.finish(r), static_cast<int>(data[i].size())) << i;
    ASSERT_TRUE(std::equal(data[i].begin(), data[i].end(), there.begin())) << i;
    ASSERT_EQ(p.finish(sends[i]), static_cast<int>(data[i].size())) << i;
  }
}

// ---- test

// *done is uninitialised on entry.
PLUGIN_TEST(Contract_B8, TestSetsDone) {
  Stay s;
  Pair p(s);
  std::vector<std::byte> there(100'000);
  void* r = p.receive(there.data(), there.size());
  ASSERT_TRUE(r);
  for (int garbage : {1, -1, 0x5a5a5a5a}) {
    int done = garbage, size = 4711;
    ASSERT_EQ(s.net->test(r, &done, &size), abi::kSuccess);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(size, 4711) << "there is no size to tell yet";
  }
  auto data = pattern(70'000, 1);
  void* q = p.send(data.data(), data.size());
  ASSERT_TRUE(q);
  EXPECT_EQ(p.finish(r), 70'000) << "what came, not what there was room for";
  int done = -1;
  ASSERT_TRUE(eventually([&] {
    EXPECT_EQ(s.net->test(q, &done, nullptr), abi::kSuccess) << "sizes may be null";
    return done == 1;
  }));
}

// NCCL tests the oldest request only: what is newer must move, and fail, inside that call.
PLUGIN_TEST(Contract_B8, ErrorsOfLaterRequestsSurfaceAtTheOldest) {
  Stay s;
  Pair p(s);
  std::vector<std::byte> a(50'000), b(50'000);
  void* mh = nullptr;
  ASSERT_EQ(s.net->regMr(p.receiving, b.data(), b.size(), abi::kPtrHost, &mh), abi::kSuccess);
  void* oldest = p.receive(a.data(), a.size());
  ASSERT_TRUE(p.receive(b.data(), b.size(), mh));
  EXPECT_EQ(p.test(oldest), -1);
  EXPECT_EQ(s.net->deregMr(p.receiving, mh), abi::kSuccess);  // the later one fails
  EXPECT_EQ(p.finish(oldest), -2);
}

PLUGIN_TEST(Contract_B8, TestingTheOldestIsEnough) {
  Stay s;
  Pair p(s);
  auto data = pattern(200'000, 1);
  std::vector<std::vector<std::byte>> there(8, std::vector<std::byte>(200'000));
  std::vector<void*> receives, sends;
  for (auto& t : there) {
    receives.push_back(p.receive(t.data(), t.size()));
    sends.push_back(p.send(data.data(), data.size()));
    ASSERT_TRUE(receives.back() && sends.back());
  }
  std::size_t received = 0, sent = 0;  // of each direction one request is tested, never a newer one
  ASSERT_TRUE(eventually([&] {
    if (received < 8 && p.test(receives[received]) == 200'000) {
      EXPECT_EQ(there[received++], data);
    }
    if (sent < 8 && p.test(sends[sent]) == 200'000) sent++;
    return received == 8 && sent == 8;
  }));
}

// No code but those that NCCL knows in every version, and never "in progress".
PLUGIN_TEST(Contract_B11, EveryCodeIsOneThatNcclKnows) {
  Stay s;
  Handle h;
  void* lc = s.listen(h);
  void* sc = s.connect(h);
  void* rc = s.accept(lc);
  EXPECT_EQ(s.net->closeRecv(rc), abi::kSuccess);
  std::vector<std::byte> data(1000);
  abi::Result r = abi::kSuccess;
  ASSERT_TRUE(eventually([&] {
    void* q = nullptr;
    r = s.net->isend(sc, data.data(), data.size(), 0, nullptr, nullptr, &q);
    int done = 0;
    if (q) r = s.net->test(q, &done, nullptr);
    return r != abi::kSuccess;
  }));
  EXPECT_EQ(r, abi::kRemoteError);
  for (int i = 0; i < 3; i++) {
    void* q = kStale;
    EXPECT_EQ(s.net->isend(sc, data.data(), data.size(), 0, nullptr, nullptr, &q), abi::kRemoteError)
        << "it stays failed";
    EXPECT_EQ(q, nullptr);
  }
  EXPECT_EQ(s.net->closeSend(sc), abi::kSuccess);
  EXPECT_EQ(s.net->closeListen(lc), abi::kSuccess);
}

PLUGIN_TEST(Contract_B9, FlushOfHostMemoryIsNothing) {
  Stay s;
  Pair p(s);
  std::byte b[64];
  void *data[] = {b}, *mhs[] = {nullptr}, *r = kStale;
  int sizes[] = {0};
  EXPECT_EQ(s.net->iflush(p.receiving, 1, data, sizes, mhs, &r), abi::kSuccess);
  EXPECT_EQ(r, nullptr);
}

}  // namespace
}  // namespace megascale::plugin_test
