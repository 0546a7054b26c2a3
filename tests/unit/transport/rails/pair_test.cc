// A Sender and a Receiver together over links that break only when told: what a flap costs, and how
// connections end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/transport/rails/faulty_dialer.h"
#include "transport/base/events.h"
#include "transport/base/log.h"

namespace megascale {
namespace {

class Pair : public testing::Test {
 protected:
  void SetUp() override { log_up_to(Level::warn); }
  void TearDown() override {
    log_up_to(Level::info);
    world.over = true;
    world.time.forget_all();
  }
  void make(std::size_t paths) {
    std::vector<Path> p;
    for (std::size_t i = 0; i < paths; i++)
      p.push_back({"rail" + std::to_string(i), "rail" + std::to_string(i)});
    dialer = std::make_unique<FaultyDialer>(world, p);
    sender = std::make_unique<Sender>(options, "pair", "there", *dialer, p);
    receiver = std::make_unique<Receiver>(options, "pair", "here", *dialer);
    dialer->connect(*sender, *receiver);
  }
  template <class F>
  bool pass_until(F&& f, Duration most) {
    for (Time end = world.time.now() + most; world.time.now() < end && !f();) {
      world.time.pass_until(world.time.now() + 20us);
      sender->progress(world.time.now());
      receiver->progress(world.time.now());
    }
    return f();
  }
  void pass(Duration d) {
    pass_until([] { return false; }, d);
  }
  Request* send(Bytes n) {
    out.emplace_back(n, std::byte{7});
    return sender->post(out.back().data(), n, nullptr, world.time.now());
  }
  Request* receive(Bytes n) {
    in.emplace_back(n);
    return receiver->post(in.back().data(), n, nullptr, world.time.now());
  }

  FaultyWorld world{1};
  ConnectionOptions options;
  std::unique_ptr<FaultyDialer> dialer;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  std::vector<std::vector<std::byte>> out, in;
};

TEST_F(Pair, a_silent_path_costs_its_detection_and_little_more) {
  options.smallest_chunk = 1024;
  make(2);
  Request *s = send(60'000), *r = receive(60'000);
  world.faults.room = 4;
  pass_until([&] { return world.happened.chunks > 10; }, 1s);
  dialer->path_down(0);
  Time down = world.time.now();
  ASSERT_TRUE(pass_until([&] { return r->done && s->done; }, 1s));
  EXPECT_LT(world.time.now() - down, world.faults.detection + 100ms);
  EXPECT_EQ(in[0], out[0]);
  EXPECT_EQ(dialer->dials.back().first, 1);
}

TEST_F(Pair, both_paths_down_for_long_and_the_job_goes_on) {
  make(2);
  Request *s = send(10'000), *r = nullptr;
  pass(10ms);
  dialer->path_down(0), dialer->path_down(1);
  r = receive(10'000);
  pass(60s);
  EXPECT_FALSE(r->done);
  EXPECT_GT(dialer->peer_checks, 30);
  dialer->path_up(0), dialer->path_up(1);
  EXPECT_TRUE(pass_until([&] { return r->done && s->done; }, 3s));
  EXPECT_EQ(in[0], out[0]);
}

// What this process wrote down while `happen` went on.
template <class F>
std::string events_of(F&& happen) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("pair-" + std::to_string(getpid()) + ".jsonl");
  EXPECT_EQ(open_events(file, -1), "");
  happen();
  close_events();
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  return text.str();
}

TEST_F(Pair, events_tell_apart_two_connections_of_the_same_name) {
  const std::string text = events_of([&] {
    make(2);
    send(60'000), receive(60'000);
    pass_until([&] { return world.happened.chunks > 0; }, 1s);
    dialer->path_down(0);
    pass(1s);
  });
  EXPECT_THAT(text, testing::HasSubstr(R"("connection":"pair","direction":"to","peer":"there")"));
  EXPECT_THAT(text, testing::HasSubstr(R"("connection":"pair","direction":"from","peer":"here")"));
}

// Nothing was under way when the links went; what comes meanwhile has to wait for all that.
TEST_F(Pair, what_is_posted_while_all_links_are_gone_stands_still_until_they_are_back) {
  make(2);
  Request *s = send(100), *r = receive(100);
  pass_until([&] { return r->done && sender->all_acknowledged(); }, 1s);
  const std::string text = events_of([&] {
    dialer->path_down(0), dialer->path_down(1);
    for (Connection* end : {static_cast<Connection*>(sender.get()), static_cast<Connection*>(receiver.get())})
      for (const char* rail : {"rail0", "rail1"})
        end->rail_lost(rail, Cause::interface_gone, world.time.now());
    pass(1s);
    s = send(20'000), r = receive(20'000);
    pass(4s);
    dialer->path_up(0), dialer->path_up(1);
    EXPECT_TRUE(pass_until([&] { return s->done && r->done; }, 3s));
  });
  std::vector<double> stalled;
  for (size_t at = 0; (at = text.find("\"stalled_ms\":", at)) != std::string::npos; ++at)
    stalled.push_back(std::stod(text.substr(at + 13)));
  ASSERT_EQ(stalled.size(), 2u) << text;
  for (double ms : stalled) EXPECT_NEAR(ms, 4500, 600) << text;
}

TEST_F(Pair, closing_after_all_is_acknowledged_loses_no_eager_message) {
  make(1);
  std::vector<Request*> s;
  for (int i = 0; i < 5; i++) s.push_back(send(100));
  pass(50ms);
  for (auto* x : s) EXPECT_TRUE(x->done) << "a copied message is done once a link has taken it";
  EXPECT_FALSE(sender->all_acknowledged()) << "nobody has posted";
  std::vector<Request*> r;
  for (int i = 0; i < 5; i++) r.push_back(receive(100));
  EXPECT_TRUE(pass_until([&] { return sender->all_acknowledged(); }, 1s));
  sender->close(wire::Reason::closed, world.time.now());
  EXPECT_TRUE(
      pass_until([&] { return sender->settled() && receiver->state() == Connection::State::closed; }, 1s));
  for (auto* x : r) EXPECT_TRUE(x->done);
  EXPECT_EQ(in, out);
  EXPECT_NE(receiver->error().message.find("closed"), std::string::npos);
}

TEST_F(Pair, a_message_larger_than_its_receive_fails_both_ends) {
  make(1);
  send(10'000), receive(5'000);
  EXPECT_TRUE(pass_until([&] { return receiver->state() == Connection::State::failed; }, 1s));
  EXPECT_TRUE(pass_until([&] { return sender->state() == Connection::State::failed; }, 1s));
  EXPECT_NE(sender->error().message.find("larger than the receive"), std::string::npos);
}

TEST_F(Pair, an_idle_connection_keeps_quiet_and_its_flap_is_repaired_when_it_is_used_again) {
  make(1);
  Request* r = receive(100);
  send(100);
  pass_until([&] { return r->done && sender->all_acknowledged(); }, 1s);
  pass(10ms);
  world.faults.reset = 0;
  dialer->wires().back()->break_end(Side::receiving, Cause::kernel_error);
  pass(1s);
  Request *s = send(20'000), *r2 = receive(20'000);
  EXPECT_TRUE(pass_until([&] { return s->done && r2->done; }, 3s));
}

TEST_F(Pair, several_homes_carry_together_and_the_lost_one_comes_back) {
  options.stripe = true, options.homes = 2;
  options.smallest_chunk = 1024;
  world.faults.room = 2;
  make(2);
  auto carry = [&] {
    Request *s = send(64'000), *r = receive(64'000);
    EXPECT_TRUE(pass_until([&] { return s->done && r->done; }, 2s));
    EXPECT_EQ(in.back(), out.back());
    s->busy = r->busy = false;
  };
  carry();
  pass(100ms);
  EXPECT_EQ(dialer->wires().size(), 2u);
  dialer->wires()[0]->break_end(Side::sending, Cause::reset);
  carry();
  pass(3s);
  EXPECT_EQ(dialer->wires().size(), 2u);
  carry();
}

}  // namespace
}  // namespace megascale
