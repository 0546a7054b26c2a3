// The receiver's rules, one test each: what is granted, where chunks land, when a receive is done, what is
// fenced before anything is resumed.
#include "transport/rails/receiver.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/transport/rails/scripted_link.h"
#include "transport/base/log.h"

namespace megascale {
namespace {

using wire::Kind;

class ReceiverRule : public testing::Test {
 protected:
  void SetUp() override {
    log_up_to(Level::warn);
    make();
  }
  void TearDown() override { log_up_to(Level::info); }
  void make(ConnectionOptions o = {}) { receiver = std::make_unique<Receiver>(o, "conn9", "rank 5", dialer); }
  Sink& sink() { return *receiver; }
  void pass(Duration d, Duration step = 1ms) {
    for (Time end = now + d; now < end;) {
      dialer.now = now += std::min(step, end - now);
      receiver->progress(now);
    }
  }
  std::shared_ptr<Script> accept(Epoch e) {
    auto s = std::make_shared<Script>();
    EXPECT_TRUE(receiver->accepted(std::make_unique<ScriptedLink>(s, "link " + std::to_string(e)), e,
                                   {"rail0", "rail0"}, now));
    return s;
  }
  void hear(Script& s, const wire::Record& r) { sink().heard(*s.link, r.bytes()); }
  void ask(Script& s, uint32_t sequence, Epoch issued, std::vector<Epoch> alive) {
    wire::Open o{sequence, issued, static_cast<uint8_t>(alive.size()), {}};
    std::copy(alive.begin(), alive.end(), o.alive.begin());
    hear(s, wire::write(o));
    pass(1us);
  }
  std::shared_ptr<Script> open() {
    auto s = accept(1);
    ask(*s, 1, 1, {1});
    EXPECT_EQ(receiver->state(), Connection::State::open);
    return s;
  }
  static Chunk chunk(MessageId m, Bytes total, int index, uint32_t cut = 1024) {
    return {m, total, cut, static_cast<uint16_t>(index)};
  }
  // The chunk arrives: its bytes are its message's number plus one.
  bool arrive(Script& s, const Chunk& c) {
    std::byte* to = sink().land(*s.link, c);
    if (!to) return false;
    if (c.bytes()) std::memset(to, static_cast<int>(c.message + 1), c.bytes());
    sink().placed(*s.link, c);
    return true;
  }
  Request* post(Bytes n) {
    buffers.emplace_back(n + 1);
    return receiver->post(buffers.back().data(), n, nullptr, now);
  }
  bool holds(std::size_t buffer, Bytes n, int value) {
    for (Bytes i = 0; i < n; i++)
      if (buffers[buffer][i] != static_cast<std::byte>(value)) return false;
    return true;
  }
  static std::optional<wire::State> state_of(Script& s) {
    auto* b = s.last(Kind::state);
    return b ? wire::read_state(*b) : std::nullopt;
  }
  static std::optional<wire::Resume> resume_of(Script& s) {
    auto* b = s.last(Kind::resume);
    return b ? wire::read_resume(*b) : std::nullopt;
  }

  Time now{10s};
  ScriptedDialer dialer;
  std::unique_ptr<Receiver> receiver;
  std::vector<std::vector<std::byte>> buffers;
};

TEST_F(ReceiverRule, what_is_posted_is_granted_and_lands_in_the_users_buffer) {
  auto a = open();
  Request* r = post(3000);
  pass(10ms);
  ASSERT_TRUE(state_of(*a));
  EXPECT_EQ(state_of(*a)->granted, 1u);
  EXPECT_EQ(sink().land(*a->link, chunk(0, 2500, 1)), buffers[0].data() + 1024);
  for (int i = 0; i < 3; i++) EXPECT_TRUE(arrive(*a, chunk(0, 2500, i)));
  EXPECT_TRUE(r->done);
  EXPECT_EQ(r->size, 2500u);
  EXPECT_TRUE(holds(0, 2500, 1));
  EXPECT_EQ(buffers[0][2500], std::byte{0});
  EXPECT_EQ(receiver->early_copies(), 0u);
}

TEST_F(ReceiverRule, messages_complete_in_order) {
  auto a = open();
  Request *first = post(100), *second = post(100);
  arrive(*a, chunk(1, 100, 0));
  EXPECT_FALSE(second->done);
  arrive(*a, chunk(0, 100, 0));
  EXPECT_TRUE(first->done && second->done);
}

TEST_F(ReceiverRule, a_chunk_that_comes_twice_counts_once) {
  auto a = open();
  Request* r = post(3000);
  EXPECT_TRUE(arrive(*a, chunk(0, 3000, 0)));
  EXPECT_FALSE(arrive(*a, chunk(0, 3000, 0)));
  sink().placed(*a->link, chunk(0, 3000, 0));
  EXPECT_TRUE(arrive(*a, chunk(0, 3000, 1)));
  EXPECT_FALSE(r->done);
  EXPECT_TRUE(arrive(*a, chunk(0, 3000, 2)));
  EXPECT_TRUE(r->done);
  EXPECT_FALSE(arrive(*a, chunk(0, 3000, 2))) << "after completion nobody wants it";
}

TEST_F(ReceiverRule, a_message_of_no_bytes_needs_no_buffer_early_or_late) {
  auto a = open();
  Request* late = receiver->post(nullptr, 0, nullptr, now);
  EXPECT_TRUE(arrive(*a, chunk(0, 0, 0)));
  EXPECT_TRUE(late->done);
  EXPECT_TRUE(arrive(*a, chunk(1, 0, 0)));
  Request* early = receiver->post(nullptr, 0, nullptr, now);
  EXPECT_TRUE(early->done);
}

TEST_F(ReceiverRule, eager_messages_that_wait_for_an_earlier_one_all_find_room) {
  auto a = open();
  for (MessageId m = 1; m < Sender::kAhead; m++) EXPECT_TRUE(arrive(*a, chunk(m, 4000, 0, 4096)));
  std::vector<Request*> all;
  for (uint64_t m = 0; m < Receiver::kPosted; m++) all.push_back(post(4000));
  for (MessageId m = Sender::kAhead; m < Receiver::kPosted + Sender::kAhead; m++)
    EXPECT_TRUE(arrive(*a, chunk(m, 4000, 0, 4096))) << m;
  EXPECT_TRUE(arrive(*a, chunk(0, 4000, 0, 4096)));
  for (std::size_t m = 0; m < all.size(); m++) {
    EXPECT_TRUE(all[m]->done) << m;
    EXPECT_TRUE(holds(m, 4000, static_cast<int>(m + 1))) << m;
    all[m]->busy = false;
  }
  for (MessageId m = Receiver::kPosted; m < Receiver::kPosted + Sender::kAhead; m++)
    EXPECT_TRUE(post(4000)->done);
}

TEST_F(ReceiverRule, early_chunks_of_one_message_land_apart) {
  auto a = open();
  for (int i : {2, 0, 3, 1}) EXPECT_TRUE(arrive(*a, chunk(0, 4000, i)));
  Request* r = post(4000);
  EXPECT_TRUE(r->done);
  EXPECT_TRUE(holds(0, 4000, 1));
}

TEST_F(ReceiverRule, payload_that_was_not_granted_breaks_the_link) {
  auto a = open();
  EXPECT_FALSE(arrive(*a, chunk(0, Sender::kEager + 1, 0)));
  EXPECT_TRUE(a->fence_asked);
}

TEST_F(ReceiverRule, resume_is_said_only_after_every_dead_epoch_is_fenced) {
  auto a = open();
  auto b = accept(2);
  ask(*b, 2, 2, {1, 2});
  post(3000);
  arrive(*a, chunk(0, 3000, 1));
  auto c = accept(3);
  ask(*c, 3, 3, {3});
  EXPECT_TRUE(a->fence_asked && b->fence_asked);
  pass(1s);
  EXPECT_FALSE(resume_of(*c));
  a->fence_confirmed = true;
  pass(1s);
  EXPECT_FALSE(resume_of(*c));
  b->fence_confirmed = true;
  pass(1ms);
  ASSERT_TRUE(resume_of(*c));
  EXPECT_EQ(resume_of(*c)->sequence, 3u);
  EXPECT_EQ(resume_of(*c)->granted, 1u);
  ASSERT_EQ(resume_of(*c)->n, 1);
  EXPECT_EQ(resume_of(*c)->placed[0], 0b010u);
}

TEST_F(ReceiverRule, a_fence_that_never_comes_keeps_the_message_from_completing_until_the_deadline) {
  ConnectionOptions o;
  o.flap_timeout = 5s;
  make(o);
  auto a = open();
  auto b = accept(2);
  ask(*b, 2, 2, {1, 2});
  Request* r = post(2000);
  ASSERT_TRUE(sink().land(*a->link, chunk(0, 2000, 0)));  // and will be written some time
  sink().broke(*a->link, Cause::kernel_error);
  arrive(*b, chunk(0, 2000, 0));
  arrive(*b, chunk(0, 2000, 1));
  pass(4s);
  EXPECT_FALSE(r->done);
  pass(2s);
  EXPECT_FALSE(r->done);
  EXPECT_EQ(receiver->state(), Connection::State::failed);
  EXPECT_NE(receiver->error().message.find("link 1"), std::string::npos);
  EXPECT_FALSE(receiver->settled());
}

TEST_F(ReceiverRule, what_a_link_tells_of_after_it_was_given_up_is_not_believed) {
  auto a = open();
  Request* r = post(1000);
  ASSERT_TRUE(sink().land(*a->link, chunk(0, 1000, 0)));
  sink().broke(*a->link, Cause::reset);
  sink().placed(*a->link, chunk(0, 1000, 0));
  EXPECT_EQ(sink().land(*a->link, chunk(0, 1000, 0)), nullptr);
  a->fence_confirmed = true;
  pass(1s);
  EXPECT_FALSE(r->done);
  auto b = accept(2);
  ask(*b, 2, 2, {2});
  EXPECT_EQ(resume_of(*b)->n, 0);
}

TEST_F(ReceiverRule, of_two_opens_that_overtook_each_other_the_later_is_answered) {
  auto a = open();
  auto b = accept(2), c = accept(3);
  ask(*c, 3, 3, {2, 3});  // its dead epoch 1 is not fenced yet
  ask(*b, 2, 3, {1, 2, 3});
  a->fence_confirmed = true;
  pass(1ms);
  ASSERT_TRUE(resume_of(*c));
  EXPECT_EQ(resume_of(*c)->sequence, 3u);
  EXPECT_FALSE(resume_of(*b));
}

TEST_F(ReceiverRule, an_open_whose_link_breaks_is_answered_on_another) {
  auto a = open();
  auto b = accept(2);
  ask(*b, 2, 2, {1, 2});
  auto c = accept(3);
  ask(*c, 3, 3, {2, 3});
  sink().broke(*c->link, Cause::reset);
  a->fence_confirmed = c->fence_confirmed = true;
  pass(1ms);
  EXPECT_EQ(resume_of(*b)->sequence, 3u);
}

TEST_F(ReceiverRule, a_resume_that_found_no_room_is_said_later) {
  auto a = accept(1);
  a->mute = true;
  ask(*a, 1, 1, {1});
  pass(10ms);
  a->mute = false;
  pass(1ms);
  EXPECT_EQ(a->said_of(Kind::resume), 1);
}

TEST_F(ReceiverRule, a_state_that_may_be_lost_with_its_link_is_said_again_on_another) {
  auto a = open();
  auto b = accept(2);
  ask(*b, 2, 2, {1, 2});
  for (bool leaves : {true, false}) {
    auto& first = leaves ? a : b;
    pass(1ms);
    sink().heard(*first->link, wire::write_ping().bytes());  // the one that was heard last gets the STATE
    if (!leaves) a = accept(3), ask(*a, 3, 3, {2, 3}), sink().heard(*b->link, wire::write_ping().bytes());
    post(100);
    pass(10ms);
    auto& other = leaves ? b : a;
    int before = other->said_of(Kind::state);
    if (leaves) hear(*first, wire::write_leave());
    else sink().broke(*first->link, Cause::reset);
    pass(10ms);
    EXPECT_EQ(other->said_of(Kind::state), before + 1) << leaves;
    EXPECT_EQ(state_of(*other)->granted, leaves ? 1u : 2u);
    first->fence_confirmed = true;
    pass(1ms);
  }
}

TEST_F(ReceiverRule, a_message_larger_than_its_receive_ends_the_connection_at_both_ends) {
  for (bool early : {false, true}) {
    make();
    auto a = open();
    if (early) arrive(*a, chunk(0, 200, 0));
    post(100);
    if (!early) arrive(*a, chunk(0, 200, 0));
    EXPECT_EQ(receiver->state(), Connection::State::failed);
    EXPECT_EQ(receiver->error().code, Code::invalid_usage);
    for (const char* word : {"200", "100", "rank 5", "conn9"})
      EXPECT_NE(receiver->error().message.find(word), std::string::npos) << receiver->error().message;
    ASSERT_EQ(a->said_of(Kind::bye), 1);
    EXPECT_EQ(wire::read_bye(*a->last(Kind::bye))->reason, wire::Reason::message_too_large);
  }
}

TEST_F(ReceiverRule, what_came_before_the_peer_closed_is_not_lost) {
  auto a = open();
  arrive(*a, chunk(0, 100, 0));
  arrive(*a, chunk(1, 100, 0));
  hear(*a, wire::write(wire::Bye{wire::Reason::closed}));
  sink().broke(*a->link, Cause::closed);
  EXPECT_EQ(receiver->state(), Connection::State::closed);
  Request* r = post(100);
  ASSERT_TRUE(r);
  a->fence_confirmed = true;
  pass(1ms);
  EXPECT_TRUE(r->done);
  EXPECT_TRUE(post(100)->done);
  EXPECT_EQ(post(100), nullptr) << "there is no more";
}

// The last acknowledgement may be lost with its link, and a sender that finds nobody would take what did
// arrive for lost.
TEST_F(ReceiverRule, who_parts_lives_on_until_the_sender_is_known_to_have_heard_all) {
  auto a = open();
  Request* r = post(100);
  pass(1ms);
  arrive(*a, chunk(0, 100, 0));
  ASSERT_TRUE(r->done);
  receiver->part(now);
  EXPECT_EQ(a->said_of(Kind::bye), 1);
  EXPECT_EQ(wire::read_state(*a->last(Kind::state))->completed, 1u);
  EXPECT_FALSE(a->fence_asked);
  sink().broke(*a->link, Cause::reset);
  a->fence_confirmed = true;
  pass(10ms);
  EXPECT_TRUE(receiver->parting());
  auto b = accept(2);
  ask(*b, 2, 2, {2});
  pass(1ms);
  ASSERT_TRUE(b->last(Kind::resume));
  EXPECT_EQ(wire::read_resume(*b->last(Kind::resume))->completed, 1u);
  EXPECT_EQ(b->said_of(Kind::bye), 1) << "after what it had";
  EXPECT_TRUE(receiver->parting());
  sink().broke(*b->link, Cause::closed);
  EXPECT_EQ(receiver->state(), Connection::State::closed);
  EXPECT_FALSE(receiver->parting());
}

TEST_F(ReceiverRule, who_parts_from_a_sender_that_is_gone_does_not_complain) {
  auto a = open();
  receiver->part(now);
  receiver->peer_gone("closed", now);
  EXPECT_EQ(receiver->state(), Connection::State::closed);
}

TEST_F(ReceiverRule, no_link_is_forgotten_before_its_fence) {
  std::vector<std::shared_ptr<Script>> all{open()};
  sink().broke(*all[0]->link, Cause::reset);
  Epoch e = 2;
  for (; e < 100; e++) {
    auto s = std::make_shared<Script>();
    if (!receiver->accepted(std::make_unique<ScriptedLink>(s, "link"), e, {"rail0", "rail0"}, now)) break;
    all.push_back(s);
    sink().broke(*s->link, Cause::reset);
  }
  EXPECT_LT(e, 100u);
  for (auto& s : all) EXPECT_TRUE(s->link);
  all[5]->fence_confirmed = true;
  pass(10ms);
  EXPECT_FALSE(all[5]->link);
  accept(e);
}

TEST_F(ReceiverRule, an_epoch_that_the_sender_gave_up_is_not_accepted_any_more) {
  auto b = accept(2);
  ask(*b, 1, 3, {2, 3});
  auto s = std::make_shared<Script>();
  EXPECT_FALSE(receiver->accepted(std::make_unique<ScriptedLink>(s, "late"), 1, {"rail0", "rail0"}, now));
  EXPECT_FALSE(receiver->accepted(std::make_unique<ScriptedLink>(s, "twice"), 2, {"rail0", "rail0"}, now));
  accept(3);
  accept(4);
}

TEST_F(ReceiverRule, without_a_link_it_asks_after_the_peer_until_the_flap_deadline) {
  ConnectionOptions o;
  o.flap_timeout = 20s;
  make(o);
  auto a = open();
  post(100);
  sink().broke(*a->link, Cause::silence);
  a->fence_confirmed = true;
  pass(19s, 5ms);
  EXPECT_EQ(receiver->state(), Connection::State::open);
  EXPECT_GE(dialer.peer_checks, 18);
  EXPECT_LE(dialer.peer_checks, 40);
  pass(2s, 5ms);
  EXPECT_EQ(receiver->state(), Connection::State::failed);
  for (const char* word : {"rank 5", "20.0 s", "MEGASCALE_FLAP_TIMEOUT", "silence"})
    EXPECT_NE(receiver->error().message.find(word), std::string::npos) << receiver->error().message;
}

TEST_F(ReceiverRule, a_sender_that_connects_and_never_says_open_is_not_waited_for_for_ever) {
  ConnectionOptions o;
  o.connect_timeout = 5s;
  make(o);
  auto a = accept(1);
  post(100);
  EXPECT_TRUE(receiver->needs_care());
  pass(4900ms, 5ms);
  EXPECT_EQ(receiver->state(), Connection::State::connecting);
  pass(300ms, 5ms);
  EXPECT_EQ(receiver->state(), Connection::State::failed);
  EXPECT_NE(receiver->error().message.find("MEGASCALE_CONNECT_TIMEOUT"), std::string::npos);
}

TEST_F(ReceiverRule, a_lost_link_needs_care_although_nothing_is_posted) {
  auto a = open();
  pass(10ms);
  EXPECT_FALSE(receiver->needs_care());
  sink().broke(*a->link, Cause::reset);
  a->fence_confirmed = true;
  EXPECT_TRUE(receiver->needs_care());
  pass(1s, 5ms);
  EXPECT_TRUE(receiver->needs_care());
}

TEST_F(ReceiverRule, grants_of_small_messages_are_gathered_and_of_large_ones_are_not) {
  auto a = open();
  constexpr int kGathered = Sender::kAhead / 2;
  for (int i = 0; i < kGathered - 1; i++) post(100);
  EXPECT_EQ(a->said_of(Kind::state), 0);
  post(100);
  EXPECT_EQ(a->said_of(Kind::state), 1);
  for (MessageId m = 0; m < 8; m++) arrive(*a, chunk(m, m == 7 ? 5000 : 100, 0, 8192));
  EXPECT_EQ(receiver->state(), Connection::State::failed) << "5000 bytes into 100";
  make();
  a = open();
  post(10'000);
  arrive(*a, chunk(0, 10'000, 0, 16'384));
  int before = a->said_of(Kind::state);
  post(10'000);
  EXPECT_EQ(a->said_of(Kind::state), before + 1);
}

TEST_F(ReceiverRule, receives_outstanding_are_bounded_by_the_window) {
  auto a = open();
  for (uint64_t i = 0; i < Receiver::kPosted; i++) ASSERT_TRUE(post(10));
  EXPECT_EQ(post(10), nullptr);
}

TEST_F(ReceiverRule,
       memory_that_is_deregistered_under_a_receive_ends_the_connection_and_waits_for_the_fence) {
  auto a = open();
  std::vector<std::byte> memory(100);
  int mark = 0;
  Request* r = receiver->post(memory.data(), 100, &mark, now);
  EXPECT_TRUE(receiver->forget(&mark, now));
  EXPECT_EQ(sink().land(*a->link, chunk(0, 100, 0)), nullptr);
  EXPECT_FALSE(receiver->settled());
  a->fence_confirmed = true;
  pass(20ms);
  EXPECT_TRUE(receiver->settled());
  EXPECT_FALSE(r->done);
}

}  // namespace
}  // namespace megascale
