// The sender's rules, one test each: what may travel when, when a send is done, what is replayed.
#include "transport/rails/sender.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/rails/scripted_link.h"
#include "transport/base/log.h"

namespace megascale {
namespace {

using wire::Kind;

class SenderRule : public testing::Test {
 protected:
  void SetUp() override { log_up_to(Level::warn); }
  void TearDown() override { log_up_to(Level::info); }

  static ConnectionOptions options() {
    ConnectionOptions o;
    o.smallest_chunk = 1024;
    return o;
  }
  void make(std::size_t paths, ConnectionOptions o = options()) {
    std::vector<Path> p;
    for (std::size_t i = 0; i < paths; i++)
      p.push_back({"rail" + std::to_string(i), "rail" + std::to_string(i) + " 10.0.0.1 -> 10.0.0.2"});
    sender = std::make_unique<Sender>(o, "conn7", "rank 3", dialer, p);
  }
  Sink& sink() { return *sender; }
  void pass(Duration d, Duration step = 1ms) {
    for (Time end = now + d; now < end;) {
      dialer.now = now += std::min(step, end - now);
      sender->progress(now);
    }
  }
  // A dial succeeds: the newest unless told otherwise.
  std::shared_ptr<Script> succeed(std::size_t dial = ~0ul) {
    auto d = dial < dialer.dials.size() ? dialer.dials[dial] : dialer.dials.back();
    auto s = std::make_shared<Script>();
    sender->dialled(d.path, d.epoch, std::make_unique<ScriptedLink>(s, "link " + std::to_string(d.epoch)),
                    now);
    return s;
  }
  std::shared_ptr<Script> dial_and_succeed() {
    std::size_t before = dialer.dials.size();
    for (int i = 0; i < 1000 && dialer.dials.size() == before; i++) pass(1ms);
    EXPECT_GT(dialer.dials.size(), before);
    return succeed();
  }
  void hear(Script& s, const wire::Record& r) {
    ASSERT_TRUE(s.link);
    sink().heard(*s.link, r.bytes());
  }
  // Answers the OPEN that was said last on it.
  void answer(Script& s, uint64_t completed = 0, uint64_t granted = 0, std::vector<uint64_t> placed = {}) {
    auto* b = s.last(Kind::open);
    ASSERT_TRUE(b);
    auto o = wire::read_open(*b);
    ASSERT_TRUE(o);
    wire::Resume r{o->sequence, completed, granted, static_cast<uint8_t>(placed.size()), {}};
    std::copy(placed.begin(), placed.end(), r.placed.begin());
    hear(s, wire::write(r));
    pass(1us);
  }
  std::shared_ptr<Script> open(uint64_t granted = 0) {
    auto s = dial_and_succeed();
    answer(*s, 0, granted);
    EXPECT_EQ(sender->state(), Connection::State::open);
    return s;
  }
  void grant(Script& s, uint64_t completed, uint64_t granted) {
    hear(s, wire::write(wire::State{completed, granted}));
    pass(1us);
  }
  void lose(Script& s, Cause c = Cause::reset) {
    ASSERT_TRUE(s.link);
    sink().broke(*s.link, c);
    s.fence_confirmed = true;
  }
  Request* post(Bytes n) { return sender->post(user.data(), n, nullptr, now); }

  Time now{10s};
  ScriptedDialer dialer;
  std::unique_ptr<Sender> sender;
  std::vector<std::byte> user = std::vector<std::byte>(1 << 20);
};

TEST_F(SenderRule, no_payload_beyond_the_eager_size_travels_before_its_grant) {
  make(1);
  auto link = open();
  post(Sender::kEager + 1);
  pass(100ms);
  EXPECT_TRUE(link->puts.empty());
  grant(*link, 0, 1);
  EXPECT_EQ(link->puts.size(), 5u);  // chunks of 1024
  EXPECT_EQ(link->puts[0].data, user.data()) << "a granted payload is not copied";
}

TEST_F(SenderRule, eager_messages_run_a_bounded_way_ahead_of_the_grants) {
  make(1);
  auto link = open();
  for (int i = 0; i < 40; i++) ASSERT_TRUE(post(8));
  pass(10ms);
  EXPECT_EQ(link->puts.size(), Sender::kAhead);
  grant(*link, 0, 5);
  EXPECT_EQ(link->puts.size(), Sender::kAhead + 5);
}

TEST_F(SenderRule, grants_are_cumulative_and_an_older_one_takes_nothing_back) {
  make(1);
  auto link = open();
  for (int i = 0; i < 3; i++) post(10'000);
  link->room = 0;
  grant(*link, 0, 2);
  grant(*link, 0, 1);
  link->room = 100;
  pass(1us);
  EXPECT_EQ(link->puts.size(), 20u);
  grant(*link, 0, 3);
  EXPECT_EQ(link->puts.size(), 30u);
}

TEST_F(SenderRule, a_send_is_done_when_the_receiver_said_so_and_not_when_a_link_took_it) {
  make(1);
  auto link = open(1);
  Request* r = post(10'000);
  pass(1s);
  ASSERT_EQ(link->puts.size(), 10u);
  EXPECT_FALSE(r->done);
  grant(*link, 1, 1);
  EXPECT_TRUE(r->done);
}

TEST_F(SenderRule, eager_messages_are_done_from_a_bounded_number_of_copies) {
  make(1);
  auto link = open();
  std::vector<Request*> all;
  for (uint64_t i = 0; i < Sender::kAhead + 3; i++) all.push_back(post(8));
  for (uint64_t i = 0; i < all.size(); i++) EXPECT_EQ(all[i]->done, i < Sender::kAhead) << i;
  EXPECT_NE(link->puts[0].data, user.data());
  EXPECT_FALSE(sender->all_acknowledged());
  grant(*link, Sender::kAhead, Sender::kAhead + 3);
  EXPECT_EQ(link->puts.back().data, user.data()) << "without a copy the user's buffer is the source";
  grant(*link, all.size(), all.size());
  EXPECT_TRUE(all.back()->done);
  EXPECT_TRUE(sender->all_acknowledged());
  all[0]->busy = false;
  EXPECT_TRUE(post(8)->done) << "acknowledged copies are free again";
}

TEST_F(SenderRule, the_window_is_bounded) {
  make(1);
  auto link = open();
  for (std::size_t i = 0; i < Sender::kWindow; i++) ASSERT_TRUE(post(100'000));
  EXPECT_EQ(post(8), nullptr);
}

TEST_F(SenderRule, an_open_names_what_lives_or_is_being_dialled_and_nothing_else) {
  auto o = options();
  o.stripe = true, o.homes = 3;
  make(3, o);
  auto a = open(1);
  pass(5s);  // the other two are dialled
  ASSERT_EQ(dialer.dials.size(), 3u);
  lose(*a);
  auto b = succeed();
  auto said = wire::read_open(*b->last(Kind::open));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->issued, 3u);
  EXPECT_FALSE(said->names(1));
  EXPECT_TRUE(said->names(2));
  EXPECT_TRUE(said->names(3));
}

TEST_F(SenderRule, nothing_is_replayed_before_the_receiver_resumed) {
  make(2);
  auto a = open(1);
  post(3000);
  pass(1ms);
  ASSERT_EQ(a->puts.size(), 3u);
  lose(*a);
  auto b = dial_and_succeed();
  pass(1s);
  EXPECT_TRUE(b->puts.empty());
  answer(*b, 0, 1, {0b010});
  ASSERT_EQ(b->puts.size(), 2u) << "what is there does not travel again";
  EXPECT_EQ(b->puts[0].chunk.index, 0);
  EXPECT_EQ(b->puts[1].chunk.index, 2);
}

TEST_F(SenderRule, a_stale_resume_is_ignored) {
  auto o = options();
  o.stripe = true, o.homes = 3;
  make(3, o);
  auto a = open(8);
  pass(10ms);
  auto b = succeed(1);
  answer(*b, 0, 8);
  auto c = succeed(2);
  answer(*c, 0, 8);
  a->said.clear(), b->said.clear(), c->said.clear();
  post(8000);
  ASSERT_GT(a->puts.size(), 0u);
  ASSERT_GT(b->puts.size(), 0u);
  lose(*a);
  pass(10ms);
  auto* first = b->last(Kind::open) ? b.get() : c.get();
  ASSERT_TRUE(first->last(Kind::open));
  auto asked = wire::read_open(*first->last(Kind::open));
  lose(first == b.get() ? *b : *c);  // a second link goes before the answer to the first OPEN is here
  pass(10ms);
  auto& last = first == b.get() ? *c : *b;
  std::size_t before = last.puts.size();
  hear(last, wire::write(wire::Resume{asked->sequence, 0, 8, 0, {}}));
  pass(10ms);
  EXPECT_EQ(last.puts.size(), before) << "it says nothing of the epoch that was given up since";
  answer(last, 0, 8);
  EXPECT_GT(last.puts.size(), before);
}

TEST_F(SenderRule, an_acknowledgement_inside_put_skips_no_message) {
  make(1);
  auto link = open(2);
  link->room = 1;
  post(1000), post(2000), post(10), post(3000);
  grant(*link, 0, 4);
  link->inside_put = [&](Sink& s) { s.heard(*link->link, wire::write(wire::State{2, 4}).bytes()); };
  link->room = 100;
  pass(1ms);
  std::array<int, 4> put{};
  for (auto& p : link->puts) put[p.chunk.message]++;
  EXPECT_EQ(put, (std::array{1, 1, 1, 3}));
}

TEST_F(SenderRule, a_replay_is_under_way_on_a_spare_within_500_ms_whatever_the_cause) {
  for (Cause c : {Cause::reset, Cause::silence, Cause::interface_gone, Cause::kernel_error}) {
    dialer.dials.clear();
    make(2);
    auto a = open(1);
    post(3000);
    lose(*a, c);
    Time lost_at = now;
    pass(5ms);
    while (now - lost_at < 500ms && dialer.dials.back().path != 1) {
      if (dialer.dials.back().path == 0)  // the home path does not answer
        sender->dial_failed(0, dialer.dials.back().epoch, Cause::unreachable, "", now);
      pass(1ms);
    }
    ASSERT_EQ(dialer.dials.back().path, 1) << to_string(c);
    auto b = succeed();
    answer(*b, 0, 1);
    EXPECT_EQ(b->puts.size(), 3u);
    EXPECT_LT(now - lost_at, 100ms) << to_string(c);
  }
}

// Who sleeps while nothing is asked of a connection must not let it lie broken until the deadline is over.
TEST_F(SenderRule, an_idle_connection_is_in_need_of_care_until_it_is_whole) {
  make(1);
  EXPECT_TRUE(sender->needs_care()) << "it is to connect";
  auto a = open();
  pass(10ms);
  EXPECT_FALSE(sender->needs_care());
  lose(*a);
  EXPECT_FALSE(sender->waiting()) << "nothing was posted";
  EXPECT_TRUE(sender->needs_care());
  auto b = dial_and_succeed();
  EXPECT_TRUE(sender->needs_care()) << "its OPEN is not answered";
  answer(*b);
  pass(10ms);
  EXPECT_FALSE(sender->needs_care());
}

TEST_F(SenderRule, what_the_receiver_lost_is_given_up_and_what_is_newer_is_not) {
  make(2);
  auto a = open(1);
  sender->lost_there(0, now);
  EXPECT_FALSE(a->fence_asked) << "the receiver knows of no link";
  sender->lost_there(sender->issued(), now);
  EXPECT_TRUE(a->fence_asked);
  a->fence_confirmed = true;
  auto b = dial_and_succeed();
  EXPECT_EQ(dialer.dials.back().path, 1) << "no word of the loss came over the first";
  answer(*b, 0, 1);
  sender->lost_there(sender->issued() - 1, now);
  EXPECT_FALSE(b->fence_asked);
  post(3000);
  EXPECT_EQ(b->puts.size(), 3u);
}

TEST_F(SenderRule, with_one_path_it_is_dialled_again_at_once) {
  make(1);
  auto a = open(1);
  post(3000);
  lose(*a, Cause::silence);
  pass(5ms);
  ASSERT_EQ(dialer.dials.size(), 2u);
  auto b = succeed();
  answer(*b, 0, 1);
  EXPECT_EQ(b->puts.size(), 3u);
}

TEST_F(SenderRule, a_flap_while_recovering_from_a_flap_is_one_more_flap) {
  make(2);
  auto a = open(1);
  post(3000);
  lose(*a, Cause::silence);
  auto b = dial_and_succeed();
  pass(2ms);
  lose(*b);  // before it answered
  auto c = dial_and_succeed();
  answer(*c, 0, 1, {0b1});
  EXPECT_EQ(c->puts.size(), 2u);
  lose(*c);
  auto d = dial_and_succeed();
  answer(*d, 0, 1, {0b1});
  EXPECT_EQ(d->puts.size(), 2u);
  grant(*d, 1, 1);
  EXPECT_TRUE(sender->all_acknowledged());
}

TEST_F(SenderRule, traffic_returns_home_after_a_hold_that_doubles_with_each_flap) {
  make(2);
  auto home = open(0);
  Duration last{};
  for (int flaps = 1; flaps <= 4; flaps++) {
    lose(*home, Cause::silence);
    pass(1ms);
    while (dialer.dials.back().path != 1) pass(1ms);
    auto spare = succeed();
    answer(*spare);
    Time from = now;
    while (dialer.dials.back().path != 0 && now - from < 100s) pass(10ms, 10ms);
    Duration hold = now - from;
    EXPECT_GE(hold, options().return_hold * (1 << (flaps - 1)) - 200ms) << flaps;
    EXPECT_GT(hold, last);
    last = hold;
    home = succeed();
    EXPECT_EQ(spare->said_of(Kind::leave), 0);
    answer(*home);
    pass(20ms);
    EXPECT_EQ(spare->said_of(Kind::leave), 1);
    EXPECT_TRUE(spare->fence_asked);
    spare->fence_confirmed = true;
    pass(20ms);
    EXPECT_EQ(spare->link, nullptr);
  }
}

TEST_F(SenderRule, a_spare_retires_only_when_nothing_is_owed_on_it) {
  make(2);
  auto home = open(4);
  lose(*home, Cause::silence);
  auto spare = dial_and_succeed();
  answer(*spare, 0, 4);
  post(3000);
  while (dialer.dials.back().path != 0) pass(10ms);
  home = succeed();
  answer(*home, 0, 4);
  pass(1s);
  EXPECT_EQ(spare->said_of(Kind::leave), 0);
  post(1000);
  EXPECT_EQ(home->puts.size(), 1u) << "new chunks go home";
  grant(*home, 2, 4);
  pass(10ms);
  EXPECT_EQ(spare->said_of(Kind::leave), 1);
}

TEST_F(SenderRule, a_retiring_spare_goes_on_when_home_breaks_again) {
  make(2);
  auto home = open(4);
  lose(*home, Cause::silence);
  auto spare = dial_and_succeed();
  answer(*spare, 0, 4);
  post(3000);  // keeps the spare from leaving
  while (dialer.dials.back().path != 0) pass(10ms);
  home = succeed();
  answer(*home, 0, 4);
  lose(*home);
  pass(5ms);
  answer(*spare, 0, 4);
  post(1000);
  EXPECT_EQ(spare->puts.size(), 4u);
}

TEST_F(SenderRule, attempts_go_on_with_capped_back_off_until_the_flap_deadline_which_names_everything) {
  auto o = options();
  o.flap_timeout = 30s;
  make(2, o);
  auto a = open(1);
  post(3000);
  lose(*a, Cause::silence);
  Time lost_at = now;
  std::size_t answered = dialer.dials.size();
  while (sender->state() != Connection::State::failed && now - lost_at < 60s) {
    pass(5ms, 5ms);
    for (; answered < dialer.dials.size(); answered++)
      sender->dial_failed(dialer.dials[answered].path, dialer.dials[answered].epoch, Cause::unreachable,
                          "no route to host", now);
  }
  EXPECT_GE(now - lost_at, 30s);
  EXPECT_LT(now - lost_at, 31s);
  std::array<Time, 2> last{lost_at, lost_at};
  for (std::size_t i = 1; i < dialer.dials.size(); i++) {
    auto& d = dialer.dials[i];
    EXPECT_LE(d.when - last[static_cast<std::size_t>(d.path)], 1100ms);
    last[static_cast<std::size_t>(d.path)] = d.when;
  }
  for (Time t : last) EXPECT_LT(now - t, 1100ms) << "it stopped before the deadline";
  EXPECT_LT(dialer.dials.size(), 2u * 75) << "half a second between attempts, for 30 s";
  const std::string& e = sender->error().message;
  for (const char* word : {"conn7", "rank 3", "rail0 10.0.0.1 -> 10.0.0.2", "rail1", "30.0 s", "attempts",
                           "MEGASCALE_FLAP_TIMEOUT", "no route to host"})
    EXPECT_NE(e.find(word), std::string::npos) << word << " is not in: " << e;
  EXPECT_EQ(sender->error().code, Code::remote);
  EXPECT_EQ(post(8), nullptr);
}

TEST_F(SenderRule, a_connection_that_never_opens_fails_at_the_connect_deadline) {
  auto o = options();
  o.connect_timeout = 5s;
  make(1, o);
  pass(4900ms);
  EXPECT_EQ(sender->state(), Connection::State::connecting);
  pass(200ms);
  EXPECT_EQ(sender->state(), Connection::State::failed);
  EXPECT_NE(sender->error().message.find("MEGASCALE_CONNECT_TIMEOUT"), std::string::npos);
}

TEST_F(SenderRule, a_receiver_that_never_resumes_is_not_waited_for_for_ever) {
  auto o = options();
  o.flap_timeout = 10s;
  make(2, o);
  auto a = open(1);
  post(3000);
  lose(*a);
  auto b = dial_and_succeed();
  pass(11s, 5ms);
  EXPECT_EQ(sender->state(), Connection::State::failed);
  EXPECT_NE(sender->error().message.find("rank 3"), std::string::npos);
  EXPECT_TRUE(b->puts.empty());
}

TEST_F(SenderRule, a_path_whose_links_break_before_they_are_of_use_is_dialled_ever_less_often) {
  make(1);
  auto a = open(0);
  lose(*a);
  for (Time end = now + 10s; now < end;) {
    std::size_t n = dialer.dials.size();
    pass(5ms, 5ms);
    if (dialer.dials.size() > n) lose(*succeed());
  }
  EXPECT_LT(dialer.dials.size(), 30u);
}

TEST_F(SenderRule, a_dead_peer_ends_the_connection_at_once) {
  make(1);
  auto a = open(1);
  post(3000);
  sender->peer_gone("killed by signal 9", now);
  EXPECT_EQ(sender->state(), Connection::State::failed);
  EXPECT_NE(sender->error().message.find("rank 3"), std::string::npos);
  EXPECT_NE(sender->error().message.find("killed by signal 9"), std::string::npos);
  EXPECT_FALSE(sender->settled());
  a->fence_confirmed = true;
  pass(20ms);
  EXPECT_TRUE(sender->settled());
}

TEST_F(SenderRule, a_receiver_whose_buffer_was_too_small_ends_the_connection_with_a_reason) {
  make(1);
  auto a = open(1);
  post(3000);
  hear(*a, wire::write(wire::Bye{wire::Reason::message_too_large}));
  EXPECT_EQ(sender->state(), Connection::State::failed);
  EXPECT_NE(sender->error().message.find("larger than the receive"), std::string::npos);
}

TEST_F(SenderRule, a_goodbye_is_answered_by_closing_for_the_receiver_waits_for_it) {
  make(1);
  auto link = open(1);
  Request* r = post(10'000);
  grant(*link, 1, 1);
  hear(*link, wire::write(wire::Bye{wire::Reason::closed}));
  EXPECT_EQ(sender->state(), Connection::State::closed);
  EXPECT_TRUE(r->done);
  EXPECT_TRUE(link->fence_asked);
}

TEST_F(SenderRule, memory_that_is_deregistered_under_a_send_ends_the_connection) {
  make(1);
  auto a = open(1);
  int mark = 0, other = 0;
  sender->post(user.data(), 10'000, &mark, now);
  EXPECT_FALSE(sender->forget(&other, now));
  EXPECT_EQ(sender->state(), Connection::State::open);
  EXPECT_TRUE(sender->forget(&mark, now));
  EXPECT_EQ(sender->state(), Connection::State::failed);
  EXPECT_TRUE(a->fence_asked);
}

TEST_F(SenderRule, a_message_beyond_the_largest_is_refused_with_a_reason) {
  make(1);
  auto a = open(1);
  EXPECT_EQ(post(Chunk::kLargest + 1), nullptr);
  EXPECT_NE(sender->error().message.find(std::to_string(Chunk::kLargest)), std::string::npos);
}

TEST_F(SenderRule, what_a_link_says_after_it_was_given_up_is_not_believed) {
  make(2);
  auto a = open(1);
  Request* r = post(10'000);
  lose(*a);
  a->fence_confirmed = false;
  hear(*a, wire::write(wire::State{1, 1}));
  EXPECT_FALSE(r->done);
}

TEST_F(SenderRule, a_peer_that_keeps_breaking_the_protocol_is_given_up) {
  make(1);
  auto a = open(1);
  for (int i = 0; i < 20 && sender->state() != Connection::State::failed; i++) {
    hear(*a, wire::write(wire::State{1000, 1000}));
    EXPECT_TRUE(a->fence_asked);
    a->fence_confirmed = true;
    if (sender->state() == Connection::State::failed) break;
    a = dial_and_succeed();
    answer(*a, 0, 1);
  }
  EXPECT_EQ(sender->state(), Connection::State::failed);
  EXPECT_NE(sender->error().message.find("must not say"), std::string::npos);
}

TEST_F(SenderRule, quiet_while_something_is_awaited_is_broken_by_ever_rarer_pings) {
  make(1);
  auto a = open(1);
  post(3000);
  pass(10s, 5ms);
  EXPECT_GE(a->said_of(Kind::ping), 8);
  EXPECT_LE(a->said_of(Kind::ping), 14);
  grant(*a, 1, 1);
  int n = a->said_of(Kind::ping);
  pass(10s, 5ms);
  EXPECT_EQ(a->said_of(Kind::ping), n) << "nothing is awaited any more";
}

TEST(Geometry, a_message_is_cut_into_at_most_64_chunks_on_lines) {
  for (Bytes total : {Bytes{0}, Bytes{1}, Bytes{127}, Bytes{4096}, Bytes{512 << 10}, (Bytes{64} << 20) + 1,
                      Bytes{1} << 30, (Bytes{1} << 30) + 77, Chunk::kLargest}) {
    Chunk c{.total = total, .chunk_bytes = Chunk::cut(total, 512 << 10)};
    EXPECT_EQ(c.chunk_bytes % Chunk::kLine, 0u);
    EXPECT_LE(c.count(), Chunk::kMost);
    Bytes sum = 0;
    for (int i = 0; i < c.count(); i++) {
      c.index = static_cast<uint16_t>(i);
      EXPECT_TRUE(c.plausible());
      EXPECT_EQ(c.offset(), sum);
      sum += c.bytes();
    }
    EXPECT_EQ(sum, total);
    c.index = static_cast<uint16_t>(c.count());
    EXPECT_FALSE(c.plausible());
  }
  EXPECT_EQ((Chunk{.total = Bytes{1} << 30, .chunk_bytes = Chunk::cut(Bytes{1} << 30, 512 << 10)}.count()),
            64);
  EXPECT_FALSE((Chunk{.total = 10, .chunk_bytes = 0}.plausible()));
  EXPECT_FALSE((Chunk{.total = 10, .chunk_bytes = 100}.plausible()));
  EXPECT_FALSE((Chunk{.total = ~Bytes{0}, .chunk_bytes = 128}.plausible()));
  EXPECT_FALSE((Chunk{.total = Bytes{128} * 65, .chunk_bytes = 128}.plausible()));
}

}  // namespace
}  // namespace megascale
