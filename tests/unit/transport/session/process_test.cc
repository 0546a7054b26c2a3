#include "transport/session/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <fstream>
#include <set>

#include "tests/unit/transport/session/process_pair.h"

namespace megascale {
namespace {

TEST(Process, NoRailsIsAnErrorThatNamesThem) {
  auto p = Process::start(on_loopback("203.0.113.9"));
  ASSERT_FALSE(p);
  EXPECT_NE(p.error().message.find("203.0.113.9"), std::string::npos);
}

TEST(Process, LeavesNoDescriptorAndNoThread) {
  { auto warm = start(); }  // what is made once per program
  int d = descriptors(), t = threads();
  {
    auto a = start(), b = start();
    EXPECT_EQ(threads(), t + 2) << "one thread each";
    Joined w = joined(*a, *b);
    EXPECT_EQ(carry(w, {10, 100'000}), "");
    HandleBytes unused;
    a->listen({0}, nullptr, unused.get());
    EXPECT_GT(descriptors(), d);
  }
  EXPECT_EQ(descriptors(), d);
  EXPECT_EQ(threads(), t);
}

TEST(Process, MessagesOfEverySizeArriveByteForByte) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {0, 1, 31, 32, 33, 127, 128, 129, 4095, 4096, 4097, 0, 65'536, 524'288, 524'289,
                      1'000'003, 0}),
            "");
  EXPECT_EQ(carry(w, {8 << 20, 3, (8 << 20) + 7}), "");
}

TEST(Process, SixtyFourMebibytes) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {64 << 20}), "");
}

TEST(Process, ThousandsOfSmallMessages) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 3000; i++) sizes.push_back(i * 37 % 5000);
  EXPECT_EQ(carry(w, sizes), "");
}

TEST(Process, StripedOverAllRails) {
  Settings s = on_loopback();
  s.stripe = true;
  s.chunk = 64 << 10;
  auto a = start(s), b = start(s);
  Joined w = joined(*a, *b);
  auto& second = statistics_for(a->rails()[1].name);
  uint64_t before = second.bytes_sent;
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(carry(w, {4 << 20, 4 << 20}), "");
    return second.bytes_sent > before;
  })) << "the second rail carried nothing";
}

// Larger than most machines have to spare, so only where it is asked for (the integration tests do).
TEST(ProcessLarge, OneGibibyte) {
  if (!getenv("PROCESS_TEST_LARGE")) GTEST_SKIP() << "PROCESS_TEST_LARGE is not set";
  std::ifstream info("/proc/meminfo");
  std::string word;
  long available = 0;
  while (info >> word)
    if (word == "MemAvailable:") info >> available;
  if (available < 4 << 20) GTEST_SKIP() << "less than 4 GiB of memory are free";
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  std::vector<uint64_t> data(1 << 27), there(1 << 27);
  for (std::size_t i = 0; i < data.size(); i++) data[i] = i * 0x9e3779b97f4a7c15;
  Request* r = post_receive(w.receiver, there.data(), 1 << 30);
  Request* s = post_send(w.sender, data.data(), 1 << 30);
  ASSERT_TRUE(r && s);
  ASSERT_TRUE(eventually([&] { return finished(w.receiver, r); }, 300s));
  ASSERT_TRUE(eventually([&] { return finished(w.sender, s); }));
  EXPECT_EQ(r->size, Bytes{1} << 30);
  EXPECT_TRUE(data == there);
}

// One that was not posted for is not sent: what is large waits for its receive.
TEST(Process, ALargeMessageWaitsForItsReceive) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  auto data = pattern(1 << 20, 4);
  Request* s = post_send(w.sender, data.data(), data.size());
  ASSERT_TRUE(s);
  for (Time end = now() + 300ms; now() < end;) ASSERT_FALSE(finished(w.sender, s));
  std::vector<std::byte> there(data.size());
  Request* r = post_receive(w.receiver, there.data(), there.size());
  ASSERT_TRUE(eventually([&] { return finished(w.receiver, r); }));
  ASSERT_TRUE(eventually([&] { return finished(w.sender, s); }));
  EXPECT_EQ(there, data);
}

TEST(Process, AMessageLargerThanItsReceiveFailsBothEndsWithBothSizes) {
  Logged log;
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  auto data = pattern(200'000, 4);
  std::vector<std::byte> there(100'000);
  post_receive(w.receiver, there.data(), there.size());
  post_send(w.sender, data.data(), data.size());
  ASSERT_TRUE(eventually([&] {
    return state_of(w.receiver) == Connection::State::failed &&
           state_of(w.sender) == Connection::State::failed;
  }));
  EXPECT_NE(error_of(w.receiver).find("200000 bytes"), std::string::npos) << error_of(w.receiver);
  EXPECT_NE(error_of(w.receiver).find("100000"), std::string::npos);
  EXPECT_NE(error_of(w.sender).find("larger than the receive"), std::string::npos) << error_of(w.sender);
}

TEST(Process, TwoConnectToOneListener) {
  auto a = start(), b = start(), c = start();
  HandleBytes handle;
  uint64_t listener = c->listen({0}, c.get(), handle.get());
  Joined first = joined_by(*a, *c, listener, handle);
  Joined second = joined_by(*b, *c, listener, handle);
  Joined third = joined_by(*a, *c, listener, handle);
  EXPECT_EQ((std::set<Endpoint*>{first.receiver, second.receiver, third.receiver}.size()), 3u);
  EXPECT_EQ(carry(second, {5, 300'000}, 10), "");
  EXPECT_EQ(carry(first, {6, 300'000}, 20), "");
  EXPECT_EQ(carry(third, {7, 300'000}, 30), "");
}

TEST(Process, ConnectionsOutliveTheirListener) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  b->close_listener(w.listener);
  EXPECT_EQ(carry(w, {9, 200'000}), "");
  cut_connections();
  EXPECT_EQ(carry(w, {9, 200'000}), "") << "a re-dial finds the connection, not the listener";
}

TEST(Process, AListenerClosedBeforeAnybodyAcceptedEndsTheSender) {
  auto a = start(), b = start();
  HandleBytes handle;
  uint64_t listener = b->listen({0}, b.get(), handle.get());
  Endpoint* e = a->connect(handle.read(), {0}, a.get());
  ASSERT_TRUE(e);
  ASSERT_TRUE(eventually([&] { return state_of(e) == Connection::State::open; }));
  b->close_listener(listener);
  EXPECT_TRUE(eventually(
      [&] { return state_of(e) == Connection::State::closed || state_of(e) == Connection::State::failed; }));
}

TEST(Process, AHandleThatNamesNothingIsRefusedWithAReason) {
  Logged log;
  auto a = start(), b = start();
  HandleBytes handle;
  uint64_t listener = b->listen({0}, b.get(), handle.get());
  b->close_listener(listener);
  Endpoint* e = a->connect(handle.read(), {0}, a.get());
  ASSERT_TRUE(e);
  ASSERT_TRUE(eventually([&] { return state_of(e) == Connection::State::failed; }));
  EXPECT_NE(error_of(e).find("no such connection"), std::string::npos) << error_of(e);
}

// A receiver that closed its end: the same sender's re-dial does not make a new connection of the old one,
// although the listener still listens.
TEST(Process, AReDialAfterTheEndIsNoNewConnection) {
  Logged log;
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {1000}), "");
  cut_connections();  // so that the goodbye is lost
  b->close(w.receiver);
  ASSERT_TRUE(eventually([&] {
    auto s = state_of(w.sender);
    return s == Connection::State::failed || s == Connection::State::closed;
  }));
  EXPECT_EQ(b->accept(w.listener), nullptr);
}

// Small messages are done when they were copied. A close right after that loses none of them.
TEST(Process, CloseRightAfterSmallMessagesLosesNothing) {
  auto a = start(), b = start();
  for (int round = 0; round < 5; round++) {
    Joined w = joined(*a, *b);
    constexpr int kMessages = 16;
    std::vector<std::vector<std::byte>> there(kMessages, std::vector<std::byte>(4096));
    for (unsigned i = 0; i < kMessages; i++) {
      auto data = pattern(4096, i);
      Request* s = post_send(w.sender, data.data(), data.size());
      ASSERT_TRUE(s);
      ASSERT_TRUE(finished(w.sender, s)) << "copied, so done at once";
    }
    if (round % 2) cut_connections();
    a->close(w.sender);
    for (unsigned i = 0; i < kMessages; i++) {
      Request* r = nullptr;
      ASSERT_TRUE(eventually([&] {
        return (r = post_receive(w.receiver, there[i].data(), 4096)) != nullptr;
      })) << "message "
          << i << " of round " << round << ": " << error_of(w.receiver);
      ASSERT_TRUE(eventually([&] { return finished(w.receiver, r); })) << i << ": " << error_of(w.receiver);
      EXPECT_EQ(there[i], pattern(4096, i));
    }
    b->close(w.receiver);
  }
}

// The caller's memory is its own again when close() has returned.
TEST(Process, CloseWithAReceiveUnderWayLetsGoOfTheMemory) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  auto data = pattern(32 << 20, 3);
  std::vector<std::byte> there(data.size());
  Request* r = post_receive(w.receiver, there.data(), there.size());
  Request* sent = post_send(w.sender, data.data(), data.size());
  ASSERT_TRUE(eventually([&] {
    return (finished(w.receiver, r), finished(w.sender, sent),
            peek(&there[0]) == data[0] && peek(&there[1]) == data[1]);
  }));
  b->close(w.receiver);
  std::fill(there.begin(), there.end(), std::byte{0x77});
  for (Time end = now() + 200ms; now() < end;) state_of(w.sender);
  EXPECT_TRUE(std::all_of(there.begin(), there.end(), [](std::byte x) { return x == std::byte{0x77}; }));
}

// A quiet pair costs nothing: its threads sleep until somebody calls.
TEST(Process, AnIdlePairTakesNoCpu) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {1000, 100'000}), "");
  std::this_thread::sleep_for(300ms);
  auto used = [] {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return std::chrono::seconds(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           std::chrono::microseconds(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  };
  auto before = used();
  std::this_thread::sleep_for(2s);
  EXPECT_LT(used() - before, 20ms);
  EXPECT_EQ(carry(w, {1000, 100'000}), "") << "and wakes again";
}

// When descriptors run out, strangers wait; the thread must not spin over a queue that it cannot empty.
TEST(Process, OutOfDescriptorsIsSurvivedWithoutSpinning) {
  auto a = start(), b = start();
  HandleBytes handle;
  uint64_t listener = b->listen({0}, b.get(), handle.get());
  int outside = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit tight{static_cast<rlim_t>(outside + 1), before.rlim_max};
  std::vector<int> fill;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (int fd; (fd = dup(outside)) >= 0;) fill.push_back(fd);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(handle.read().port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(outside, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  std::this_thread::sleep_for(100ms);
  timespec t0{}, t1{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
  std::this_thread::sleep_for(1s);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
  double used =
      static_cast<double>(t1.tv_sec - t0.tv_sec) + 1e-9 * static_cast<double>(t1.tv_nsec - t0.tv_nsec);
  setrlimit(RLIMIT_NOFILE, &before);
  for (int fd : fill) close(fd);
  close(outside);
  EXPECT_LT(used, 0.15) << "seconds of CPU in one second";
  Joined w = joined_by(*a, *b, listener, handle);
  EXPECT_EQ(carry(w, {1000}), "");
}

// A child forked in the middle of it all: it lets go of what is ours, and ends without harm to the parent.
TEST(Process, AForkedChildDoesNoHarm) {
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {1000}), "");
  pid_t child = fork();
  if (child == 0) {
    tcp::close_all_in_child();
    _exit(entries("/proc/self/task") > 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(carry(w, {1000, 300'000}), "");
}

}  // namespace
}  // namespace megascale
