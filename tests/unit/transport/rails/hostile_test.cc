// A peer that says anything at all: random records and chunks end a link or a connection, never the process.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/unit/transport/rails/scripted_link.h"
#include "tests/unit/transport/rails/virtual_time.h"
#include "transport/base/log.h"
#include "transport/rails/receiver.h"
#include "transport/rails/sender.h"

namespace megascale {
namespace {

// Mostly what is nearly right, for that gets furthest.
std::vector<std::byte> some_record(Dice& d) {
  auto number = [&]() -> uint64_t {
    switch (d.below(6)) {
      case 0:
        return ~0ull;
      case 1:
        return 1ull << d.below(64);
      default:
        return d.below(70);
    }
  };
  auto small = [&] { return static_cast<uint32_t>(number()); };
  wire::Record r;
  switch (d.below(7)) {
    case 0:
      r = wire::write(wire::State{number(), number()});
      break;
    case 1: {
      wire::Open o{small(), small(), static_cast<uint8_t>(d.below(wire::kEpochs + 1)), {}};
      for (auto& e : o.alive) e = small();
      r = wire::write(o);
      break;
    }
    case 2: {
      wire::Resume s{static_cast<uint32_t>(d.below(4)),
                     d.below(4),
                     number(),
                     static_cast<uint8_t>(d.below(wire::kWindow + 1)),
                     {}};
      for (auto& p : s.placed) p = number();
      r = wire::write(s);
      break;
    }
    case 3:
      r = d.chance(0.5) ? wire::write_ping() : wire::write_leave();
      break;
    case 4:
      if (d.chance(0.1)) r = wire::write(wire::Bye{static_cast<wire::Reason>(d.below(8))});
      break;
    default:
      for (auto n = d.below(60); n; n--)
        r.add(static_cast<uint8_t>(d.chance(0.5) ? d.below(8) : d.below(256)));
  }
  std::vector<std::byte> b(r.bytes().begin(), r.bytes().end());
  if (!b.empty() && d.chance(0.2)) b.resize(d.below(b.size() + 1));
  if (d.chance(0.1)) b.resize(b.size() + d.below(9));
  return b;
}

Chunk some_chunk(Dice& d) {
  return {d.chance(0.9) ? d.below(90) : d.roll(), d.chance(0.8) ? d.below(9000) : d.roll(),
          static_cast<uint32_t>(d.chance(0.8) ? 128 * d.below(40) : d.roll()),
          static_cast<uint16_t>(d.below(70))};
}

// A chunk as a correct sender might send it when `done` messages are complete.
Chunk good_chunk(Dice& d, uint64_t done) {
  Chunk c{.message = done + d.below(6)};
  c.total = c.message * 911 % 4097;
  c.chunk_bytes = Chunk::cut(c.total, 128 * (1 + c.message % 20));
  c.index = static_cast<uint16_t>(d.below(static_cast<uint64_t>(c.count())));
  return c;
}

class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    log_up_to("none"), log_to([](Level, const char*) {});
  }
  void TearDown() override { log_up_to(Level::info), log_to(nullptr); }
  static constexpr int kRounds = 2000, kSteps = 60;
};

TEST_F(Hostile, a_sender_survives_any_receiver) {
  uint64_t failed = 0, open = 0;
  for (uint64_t seed = 0; seed < kRounds; seed++) {
    Dice d(seed);
    ScriptedDialer dialer;
    ConnectionOptions o;
    o.smallest_chunk = 128;
    o.stripe = d.chance(0.5);
    Sender s(o, "c", "p", dialer, {{"rail0", "rail0"}, {"rail1", "rail1"}});
    Sink& sink = s;
    std::vector<std::byte> memory(8192);
    std::vector<std::shared_ptr<Script>> links;
    Time now{1s};
    std::size_t answered = 0;
    for (int i = 0; i < kSteps; i++) {
      s.progress(now += 1ms * static_cast<int64_t>(d.below(20)));
      for (; answered < dialer.dials.size(); answered++) {
        links.push_back(std::make_shared<Script>());
        s.dialled(dialer.dials[answered].path, dialer.dials[answered].epoch,
                  std::make_unique<ScriptedLink>(links.back(), "link"), now);
      }
      s.post(memory.data(), d.below(memory.size()), nullptr, now);
      for (auto& l : links) {
        l->fence_confirmed = true;
        if (l->link) sink.heard(*l->link, some_record(d));
        if (l->link && d.chance(0.05)) {
          EXPECT_EQ(sink.land(*l->link, some_chunk(d)), nullptr);
        }
        if (l->link && d.chance(0.05)) sink.placed(*l->link, some_chunk(d));
      }
      open += s.state() == Connection::State::open;
    }
    failed += s.state() == Connection::State::failed;
  }
  EXPECT_GT(open, 1000u) << "the records were too wrong to try anything";
  EXPECT_GT(failed, 10u);
}

TEST_F(Hostile, a_receiver_survives_any_sender_and_writes_only_into_its_buffers) {
  uint64_t landed = 0, done = 0;
  for (uint64_t seed = 0; seed < kRounds; seed++) {
    Dice d(seed);
    const double nasty = std::array{0.0, 0.001, 0.01, 0.3}[seed % 4];
    ScriptedDialer dialer;
    Receiver r({}, "c", "p", dialer);
    Sink& sink = r;
    std::vector<std::unique_ptr<std::byte[]>> buffers;  // exact, so that a sanitizer sees what is beside them
    std::vector<Request*> requests;
    uint64_t completed = 0;
    std::vector<std::shared_ptr<Script>> links;
    Time now{1s};
    for (int i = 0; i < kSteps; i++) {
      r.progress(now += 1ms * static_cast<int64_t>(d.below(20)));
      if (links.size() < 40 && (links.empty() || d.chance(0.3))) {
        links.push_back(std::make_shared<Script>());
        auto e = static_cast<Epoch>(links.size());
        r.accepted(std::make_unique<ScriptedLink>(links.back(), "link"), e, {"rail0", "rail0"}, now);
      }
      Bytes n = d.chance(nasty) ? d.below(9000) : 4097;
      buffers.push_back(std::make_unique<std::byte[]>(n));
      if (auto* q = r.post(buffers.back().get(), n, nullptr, now)) requests.push_back(q);
      for (auto& l : links) {
        l->fence_confirmed = d.chance(0.8);
        if (l->link && d.chance(nasty)) sink.heard(*l->link, some_record(d));
        for (int k = 0; k < 4 && l->link; k++) {
          Chunk c = d.chance(nasty) ? some_chunk(d) : good_chunk(d, completed);
          std::byte* to = sink.land(*l->link, c);
          if (!to) continue;
          landed++;
          if (c.bytes()) std::memset(to, 1, c.bytes());
          sink.placed(*l->link, c);
        }
      }
      for (auto* q : requests)
        if (q->done && q->busy) q->busy = false, done++, completed++;
    }
  }
  EXPECT_GT(landed, 1000u) << "the chunks were too wrong to try anything";
  EXPECT_GT(done, 100u);
}

}  // namespace
}  // namespace megascale
