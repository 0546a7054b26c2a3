// The data path takes no memory: with malloc counted, ten thousand messages allocate nothing on the threads
// that move them. A program of its own, for it brings its own malloc.
#include <atomic>
#include <iostream>

#include "tests/unit/plugin/loaded.h"

extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);
extern "C" void* __libc_memalign(size_t, size_t);

namespace {
std::atomic<long> everywhere{0};
thread_local long here = 0;
void note() {
  everywhere.fetch_add(1, std::memory_order_relaxed);
  here++;
}
}  // namespace

extern "C" void* malloc(size_t n) { return note(), __libc_malloc(n); }
extern "C" void* calloc(size_t n, size_t m) { return note(), __libc_calloc(n, m); }
extern "C" void* realloc(void* p, size_t n) { return note(), __libc_realloc(p, n); }
extern "C" void* aligned_alloc(size_t a, size_t n) { return note(), __libc_memalign(a, n); }

namespace megascale::plugin_test {
namespace {

// Outside of gtest's assertions, which allocate.
long allocations_of(const Pair& p, const std::byte* data, std::byte* there, std::size_t n, int messages) {
  void *sends[8], *receives[8];
  int posted = 0, sent = 0, received = 0, done = 0;
  long before = here;
  while (done < messages) {
    if (posted < messages && posted < done + 8) {
      void *to = there, *mh = nullptr, *r = nullptr;
      std::size_t size = n;
      int tag = 0;
      if (p.net->irecv(p.receiving, 1, &to, &size, &tag, &mh, nullptr, &r) != abi::kSuccess) return -1;
      if (r) receives[posted++ % 8] = r;
    }
    if (sent < posted) {
      void* q = nullptr;
      if (p.net->isend(p.sending, const_cast<std::byte*>(data), n, 0, nullptr, nullptr, &q) != abi::kSuccess)
        return -2;
      if (q) sends[sent++ % 8] = q;
    }
    int over = 0;
    if (received < posted && p.net->test(receives[received % 8], &over, nullptr) != abi::kSuccess) return -3;
    received += received < posted && over;
    over = 0;
    if (done < sent && done < received && p.net->test(sends[done % 8], &over, nullptr) != abi::kSuccess)
      return -4;
    done += done < sent && done < received && over;
  }
  return here - before;
}

PLUGIN_TEST(Guest, NoAllocationPerMessage) {
  Stay s;
  Pair p(s);
  for (std::size_t n : {8, 4096, 100'000}) {
    auto data = pattern(n, 1);
    std::vector<std::byte> there(n);
    ASSERT_GE(allocations_of(p, data.data(), there.data(), n, 200), 0);  // what is made when first needed
    long all_before = everywhere;
    EXPECT_EQ(allocations_of(p, data.data(), there.data(), n, 10'000), 0)
        << "by the threads that call, at " << n;
    long all = everywhere - all_before;
    std::cout << all << " allocations by the sleeping thread during 10000 messages of " << n << " bytes\n";
    EXPECT_LT(all, 10'000) << "not one a message";
    EXPECT_EQ(there, data);
  }
}

TEST(Guest, TheCountCounts) {
  long before = here;
  std::vector<int> v(100);
  EXPECT_GT(here, before) << v.size();
}

}  // namespace
}  // namespace megascale::plugin_test
