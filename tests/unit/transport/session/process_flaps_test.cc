// Links are mortal, connections are not, peers' processes are mortal again: what is lost is replaced, who is
// dead is named.
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/transport/session/process_pair.h"

namespace megascale {
namespace {

TEST(Flaps, ACutConnectionIsReplacedAndEveryByteArrives) {
  Logged log;
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {1000, 2 << 20}, 1), "");
  for (unsigned i = 0; i < 5; i++) {
    EXPECT_GE(cut_connections(), 1);
    EXPECT_EQ(carry(w, {1000, 2 << 20, 0, 4096, 3 << 20}, 10 * i), "");
  }
  EXPECT_TRUE(log.has("flap over")) << log.all();
}

TEST(Flaps, CutsInTheMiddleOfLargeMessages) {
  Logged log;
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  std::atomic<bool> over{false};
  std::thread cutter([&] {
    while (!over) {
      std::this_thread::sleep_for(50ms);
      cut_connections();
    }
  });
  std::string wrong;
  for (unsigned i = 0; i < 10 && wrong.empty(); i++) wrong = carry(w, {8 << 20, 100, 8 << 20, 3 << 20}, i);
  over = true;
  cutter.join();
  EXPECT_EQ(wrong, "");
}

// A listener of the same port that plays dead is no peer: one rail of two is enough.
TEST(Flaps, WithOneRailItDialsItselfAgain) {
  Settings s = on_loopback("127.0.0.1");
  auto a = start(s), b = start(s);
  Joined w = joined(*a, *b);
  cut_connections();
  EXPECT_EQ(carry(w, {1000, 1 << 20}), "");
}

TEST(Flaps, APeerThatEndsInOrderIsKnownAtOnce) {
  auto a = start();
  auto b = start();
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {1000}), "");
  auto data = pattern(1 << 20, 1);
  ASSERT_TRUE(post_send(w.sender, data.data(), data.size()));  // waits for its receive
  b.reset();
  Time begun = now();
  ASSERT_TRUE(eventually([&] {
    auto s = state_of(w.sender);
    return s == Connection::State::failed || s == Connection::State::closed;
  }));
  std::cout << "known after " << seconds(now() - begun) * 1e3 << " ms: " << error_of(w.sender) << "\n";
  EXPECT_LT(now() - begun, 10s);
  EXPECT_NE(error_of(w.sender).find("process " + std::to_string(getpid())), std::string::npos)
      << error_of(w.sender);
}

// ---- a real death needs a real process

struct Mortal {
  pid_t pid = -1;
  HandleBytes handle;

  // Must be made before this program has threads. The child takes what comes until it is killed; with
  // `heir`, it leaves a child of its own behind, which lives as long as this object.
  explicit Mortal(bool heir = false) {
    int said[2], leash[2];
    if (pipe(said) || pipe(leash)) throw std::runtime_error("pipe");
    pid = fork();
    if (pid == 0) {
      ::close(said[0]);
      ::close(leash[1]);
      try {
        live(said[1], heir ? leash[0] : -1);
      } catch (const std::exception& x) {  // gtest would catch it and run the other tests, here in the child
        fprintf(stderr, "%s\n", x.what());
      }
      _exit(5);
    }
    ::close(said[1]);
    ::close(leash[0]);
    leash_ = leash[1];
    std::size_t got = 0;
    while (got < Handle::kBytes) {
      ssize_t n = read(said[0], handle.bytes + got, Handle::kBytes - got);
      if (n <= 0) throw std::runtime_error("the child said nothing");
      got += static_cast<std::size_t>(n);
    }
    ::close(said[0]);
  }
  ~Mortal() {
    kill();
    ::close(leash_);
  }
  void kill() {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    pid = -1;
  }

 private:
  int leash_ = -1;

  static void live(int out, int heirs_leash) {
    auto p = start();
    HandleBytes h;
    uint64_t l = p->listen({0}, nullptr, h.get());
    if (write(out, h.bytes, sizeof h.bytes) < 0) _exit(3);
    Endpoint* e = accept_one(*p, l);
    if (!e) _exit(4);
    std::vector<std::byte> there(4096);
    Request* r = nullptr;
    for (bool told = false;;) {
      if (!r) r = post_receive(e, there.data(), there.size());
      if (r && finished(e, r)) {
        r = nullptr;
        if (heirs_leash >= 0 && !told && fork() == 0) {
          tcp::close_all_in_child();
          char b;
          (void)!read(heirs_leash, &b, 1);  // until the leash is let go
          _exit(0);
        }
        told = true;
      }
      std::this_thread::sleep_for(1ms);
    }
  }
};

void expect_known_death(Mortal& m, std::unique_ptr<Process>& a) {
  Endpoint* e = a->connect(m.handle.read(), {0}, nullptr);
  ASSERT_TRUE(e);
  ASSERT_TRUE(eventually([&] { return state_of(e) == Connection::State::open; }));
  auto data = pattern(1000, 1);
  Request* r = post_send(e, data.data(), data.size());
  ASSERT_TRUE(r);
  ASSERT_TRUE(eventually([&] {
    finished(e, r);
    Entered in(*e);
    return e->sender()->all_acknowledged();
  }));
  std::this_thread::sleep_for(100ms);
  std::string name = "process " + std::to_string(m.pid);
  m.kill();
  Time begun = now();
  auto large = pattern(1 << 20, 1);
  post_send(e, large.data(), large.size());
  ASSERT_TRUE(eventually([&] { return state_of(e) == Connection::State::failed; }));
  std::cout << "known after " << seconds(now() - begun) * 1e3 << " ms: " << error_of(e) << "\n";
  EXPECT_LT(now() - begun, 10s) << "one second is the promise, on a machine that is not crowded";
  EXPECT_NE(error_of(e).find("gone"), std::string::npos) << error_of(e);
  EXPECT_NE(error_of(e).find(name), std::string::npos) << error_of(e);
}

TEST(Flaps, AKilledProcessIsNamedSoon) {
  Logged log;
  Mortal m;
  auto a = start();
  expect_known_death(m, a);
}

TEST(Flaps, AKilledProcessIsDeadAlthoughItsChildLives) {
  Logged log;
  Mortal m(true);
  auto a = start();
  expect_known_death(m, a);
}

TEST(Flaps, NobodyAtTheAddressAnyMoreFailsTheConnect) {
  Logged log;
  Mortal m;
  m.kill();
  auto a = start();
  Endpoint* e = a->connect(m.handle.read(), {0}, nullptr);
  ASSERT_TRUE(e);
  Time begun = now();
  ASSERT_TRUE(eventually([&] { return state_of(e) == Connection::State::failed; }));
  EXPECT_LT(now() - begun, 10s);
  EXPECT_NE(error_of(e).find("does not exist any more"), std::string::npos) << error_of(e);
}

// A host that does not answer at all: the deadline, with everything that was tried.
TEST(Flaps, WithNoAnswerTheConnectEndsAtItsDeadline) {
  Logged log;
  Settings s = on_loopback();
  s.connect_timeout = 1500ms;
  auto a = start(s);
  // A full queue of a listener that accepts nobody: the kernel then drops what comes.
  tcp::Socket deaf(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  ASSERT_EQ(bind(deaf.fd(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
  ASSERT_EQ(listen(deaf.fd(), 0), 0);
  Handle h{.port = tcp::local_address(deaf.fd()).port(),
           .listener = 1,
           .nonce = 2,
           .incarnation = 3,
           .homes = 1,
           .addresses = {*tcp::Address::parse("127.0.0.1"), *tcp::Address::parse("127.0.0.2")}};
  for (auto& x : h.addresses) x.set_port(h.port);
  Time begun = now();
  Endpoint* e = a->connect(h, {0}, nullptr);
  ASSERT_TRUE(e);
  ASSERT_TRUE(eventually([&] { return state_of(e) == Connection::State::failed; }));
  EXPECT_GE(now() - begun, 1500ms);
  for (const char* words :
       {"attempts", "127.0.0.1 -> 127.0.0.1", "MEGASCALE_CONNECT_TIMEOUT", "no path to the peer"})
    EXPECT_NE(error_of(e).find(words), std::string::npos) << error_of(e);
}

}  // namespace
}  // namespace megascale
