// Nobody calls, and yet what breaks is mended: the thread looks after connections whose callers are
// elsewhere.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/transport/session/process_pair.h"

namespace megascale {
namespace {

// Long enough for the thread to see that the callers are gone, and to fall asleep.
void callers_go_quiet() { std::this_thread::sleep_for(200ms); }

// While it lives no descriptor can be had, so that every dial fails.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none{3, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Idle, a_connection_that_nobody_uses_is_dialled_until_it_is_there_again) {
  Logged log;
  auto a = start(), b = start();
  Joined w = joined(*a, *b);
  ASSERT_EQ(carry(w, {1000}), "");
  callers_go_quiet();
  {
    NoDescriptors none;
    ASSERT_GE(cut_connections(), 1);
    std::this_thread::sleep_for(1s);
    EXPECT_FALSE(log.has("flap over")) << log.all();
  }
  EXPECT_TRUE(eventually([&] { return log.has("flap over"); })) << log.all();
  EXPECT_EQ(carry(w, {1000, 1 << 20}, 2), "");
}

// The receiver's end of a link goes and nothing of it is heard at the sender, which has nothing to say.
TEST(Idle, a_link_that_only_the_receiver_lost_is_replaced) {
  Logged log;
  Settings s = on_loopback();
  s.flap_timeout = 20s;
  auto a = start(s), b = start(s);
  Joined w = joined(*a, *b);
  ASSERT_EQ(carry(w, {1000}), "");
  callers_go_quiet();
  int kept = -1;
  {
    Entered in(*w.receiver);
    w.receiver->connection().each_link([&](const Link& l) { kept = dup(l.descriptor()); });
    ASSERT_GE(kept, 0);
    w.receiver->connection().rail_lost(b->rails()[0].name, Cause::interface_gone, now());
  }
  w.receiver->called();  // or its thread would not know
  EXPECT_TRUE(eventually([&] { return log.has("flap over"); }, 19s)) << log.all();
  EXPECT_EQ(carry(w, {1000, 1 << 20}, 2), "");
  EXPECT_FALSE(log.has("no word from the peer")) << log.all();
  ::close(kept);
}

TEST(Idle, without_a_thread_it_says_so_and_leaves_the_callers_signals_alone) {
  pthread_attr_t before, impossible;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  pthread_attr_init(&impossible);
  ASSERT_EQ(pthread_attr_setstacksize(&impossible, std::size_t{1} << 47), 0);
  ASSERT_EQ(pthread_setattr_default_np(&impossible), 0);
  auto p = Process::start(on_loopback());
  pthread_setattr_default_np(&before);
  ASSERT_FALSE(p);
  EXPECT_NE(p.error().message.find("cannot start the thread"), std::string::npos) << p.error().message;
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGTERM));
}

}  // namespace
}  // namespace megascale
