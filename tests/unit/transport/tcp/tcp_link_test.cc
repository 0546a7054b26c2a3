#include "transport/tcp/tcp_link.h"

#include <poll.h>

#include "tests/unit/transport/tcp/loopback.h"

namespace megascale::tcp {
namespace {

struct Ends {
  std::unique_ptr<TcpLink> out, in;
  Notes out_notes, in_notes;

  explicit Ends(const Tuning& t = {}) {
    auto [a, b] = connected(t);
    out = link_over(std::move(a), Side::sends);
    in = link_over(std::move(b), Side::receives);
  }
  bool poll_until(const std::function<bool()>& condition) {
    return eventually([&] {
      out->poll(out_notes, clock_now());
      in->poll(in_notes, clock_now());
      return condition();
    });
  }
};

TEST(TcpLink, ChunksOfEverySizeArriveWhole) {
  Ends e;
  MessageId m = 0;
  for (Bytes n : {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 4096, 65536, 1 << 20, 5'000'001}) {
    auto data = pattern(n, static_cast<unsigned>(m)), there = std::vector<std::byte>(n + 1, std::byte{0xee});
    e.in_notes.place = [&](const Chunk&) { return there.data(); };
    Chunk c = whole(m, n);
    ASSERT_TRUE(e.poll_until([&] { return e.out->has_room(clock_now()); }));
    ASSERT_EQ(e.out->put(e.out_notes, c, data.data(), clock_now()), Post::ok);
    ASSERT_TRUE(e.poll_until([&] { return e.in_notes.arrived.size() == m + 1; })) << n;
    EXPECT_EQ(e.in_notes.arrived.back().message, m);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), there.begin())) << n;
    EXPECT_EQ(there[n], std::byte{0xee}) << "a byte behind the message was written";
    m++;
  }
}

// A socket that takes only a part of a chunk keeps the rest with us, and the link says that it has no room.
TEST(TcpLink, PartialWritesGoOn) {
  Tuning small;
  small.send_buffer = small.receive_buffer = 256 << 10;  // a few of loopback's large segments
  Ends e(small);
  const Bytes n = 20'000'000;
  auto data = pattern(n), there = std::vector<std::byte>(n);
  e.in_notes.place = [&](const Chunk&) { return there.data(); };
  ASSERT_EQ(e.out->put(e.out_notes, whole(0, n), data.data(), clock_now()), Post::ok);
  EXPECT_FALSE(e.out->has_room(clock_now()));
  EXPECT_TRUE(e.out->wants_out());
  EXPECT_EQ(e.out->put(e.out_notes, whole(1, 8), data.data(), clock_now()), Post::again);
  ASSERT_TRUE(e.poll_until([&] { return e.in_notes.arrived.size() == 1; }));
  EXPECT_EQ(data, there);
  EXPECT_TRUE(e.out->has_room(clock_now()));
  EXPECT_FALSE(e.out->wants_out());
}

// Payload goes from the socket to the place that land() names and nowhere else: land() is asked when the
// frame is there and not one byte of the payload has come; then each dribble is found in place, although
// nobody has said placed() yet; and the staging, which holds one frame, cannot have held it.
TEST(TcpLink, GrantedPayloadLandsInTheUsersBufferWithoutACopyOfOurs) {
  auto [a, b] = connected();
  auto in = link_over(std::move(b), Side::receives);
  Notes notes;
  const Bytes n = 10'000;
  auto data = pattern(n), there = std::vector<std::byte>(n);
  notes.place = [&](const Chunk&) { return there.data(); };
  Frame f = frame_of(whole(3, n), data.data());
  auto write_some = [fd = a.fd()](const void* p, std::size_t bytes) {
    ASSERT_EQ(send(fd, p, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  };
  auto frame = reinterpret_cast<const std::byte*>(&f);
  write_some(frame, sizeof f - 1);
  for (int i = 0; i < 100; i++) in->poll(notes, clock_now());
  EXPECT_TRUE(notes.landed.empty()) << "half a frame means nothing yet";
  write_some(frame + sizeof f - 1, 1);
  ASSERT_TRUE(eventually([&] { return in->poll(notes, clock_now()), !notes.landed.empty(); }));
  EXPECT_EQ(there, std::vector<std::byte>(n)) << "asked before any payload was there";
  std::size_t sent = 0;
  for (std::size_t dribble : {1, 7, 63, 64, 65, 100, 1000, 3000}) {
    write_some(data.data() + sent, dribble);
    sent += dribble;
    ASSERT_TRUE(eventually([&] {
      in->poll(notes, clock_now());
      return std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(sent), there.begin());
    })) << sent
        << " bytes were sent, and are not in the user's buffer";
    EXPECT_TRUE(notes.arrived.empty());
  }
  write_some(data.data() + sent, n - sent);
  ASSERT_TRUE(eventually([&] { return in->poll(notes, clock_now()), !notes.arrived.empty(); }));
  EXPECT_EQ(there, data);
  EXPECT_EQ(notes.landed.size(), 1u);
}

// With frame, payload and the next frame in the socket at once, what is read past the payload is at most one
// frame: the kernel still holds the second payload when land() is asked where it belongs.
TEST(TcpLink, AReceiverReadsAtMostOneFrameAhead) {
  auto [a, b] = connected();
  int fd = b.fd();
  auto in = link_over(std::move(b), Side::receives);
  const Bytes n = 5000;
  auto data = pattern(n), there = std::vector<std::byte>(n);
  Notes notes;
  std::vector<int> unread;
  notes.place = [&](const Chunk&) {
    std::vector<std::byte> peek(n + 2 * sizeof(Frame));
    unread.push_back(static_cast<int>(recv(fd, peek.data(), peek.size(), MSG_PEEK | MSG_DONTWAIT)));
    return there.data();
  };
  std::vector<std::byte> stream;
  for (MessageId m : {0, 1}) {
    Frame f = frame_of(whole(m, n), data.data());
    auto bytes = reinterpret_cast<const std::byte*>(&f);
    stream.insert(stream.end(), bytes, bytes + sizeof f);
    stream.insert(stream.end(), data.begin(), data.end());
  }
  ASSERT_EQ(send(a.fd(), stream.data(), stream.size(), 0), static_cast<ssize_t>(stream.size()));
  ASSERT_TRUE(eventually([&] { return in->poll(notes, clock_now()), notes.arrived.size() == 2; }));
  ASSERT_EQ(unread.size(), 2u);
  EXPECT_GE(unread[0], static_cast<int>(n)) << "the first payload was read before land() was asked";
  EXPECT_EQ(unread[1], static_cast<int>(n)) << "the second payload was read before land() was asked";
}

TEST(TcpLink, RecordsTravelBetweenChunksInOrder) {
  Ends e;
  auto data = pattern(100'000), there = std::vector<std::byte>(100'000);
  e.in_notes.place = [&](const Chunk&) { return there.data(); };
  std::string small = "short", large(Link::kRecord, 'x');
  ASSERT_EQ(e.out->say(e.out_notes, bytes_of(small), clock_now()), Post::ok);
  ASSERT_EQ(e.out->put(e.out_notes, whole(0, data.size()), data.data(), clock_now()), Post::ok);
  ASSERT_EQ(e.out->say(e.out_notes, bytes_of(large), clock_now()), Post::ok) << "while a chunk is under way";
  ASSERT_TRUE(e.poll_until([&] { return e.out->has_room(clock_now()); }));
  ASSERT_EQ(e.out->put(e.out_notes, whole(1, 20), data.data(), clock_now()), Post::ok);
  ASSERT_TRUE(e.poll_until([&] { return e.in_notes.order.size() == 4; }));
  EXPECT_EQ(e.in_notes.order, (std::vector<std::string>{"record", "chunk", "record", "chunk"}));
  EXPECT_EQ(e.in_notes.words, (std::vector<std::string>{small, large}));
}

TEST(TcpLink, RecordsOfEveryLengthBothWays) {
  Ends e;
  std::vector<std::string> said;
  for (std::size_t n = 1; n <= Link::kRecord; n += n < 80 ? 1 : 59) said.push_back(std::string(n, 'a') + 'z');
  for (auto& s : said) s.resize(std::min(s.size(), Link::kRecord));
  for (auto& s : said) {
    auto say = [&](TcpLink& l, Notes& n) { return l.say(n, bytes_of(s), clock_now()) == Post::ok; };
    ASSERT_TRUE(e.poll_until([&] { return say(*e.out, e.out_notes); }));
    ASSERT_TRUE(e.poll_until([&] { return say(*e.in, e.in_notes); }));
  }
  ASSERT_TRUE(e.poll_until(
      [&] { return e.in_notes.words.size() == said.size() && e.out_notes.words.size() == said.size(); }));
  EXPECT_EQ(e.in_notes.words, said);
  EXPECT_EQ(e.out_notes.words, said);
}

// Nobody reads: records pile up to a bound, and then the link says "again" rather than to take memory.
TEST(TcpLink, RecordsAreQueuedUpToABound) {
  Tuning small;
  small.send_buffer = small.receive_buffer = 256 << 10;
  Ends e(small);
  std::string record(Link::kRecord, 'r');
  int taken = 0;
  while (taken < 100'000 && e.out->say(e.out_notes, bytes_of(record), clock_now()) == Post::ok) taken++;
  ASSERT_LT(taken, 100'000);
  ASSERT_TRUE(e.poll_until([&] { return e.in_notes.words.size() == static_cast<std::size_t>(taken); }));
  EXPECT_EQ(e.out->say(e.out_notes, bytes_of(record), clock_now()), Post::ok);
}

TEST(TcpLink, UnwantedChunksAreThrownAwayAndNotToldOf) {
  Ends e;
  auto data = pattern(1 << 20), there = std::vector<std::byte>(1 << 20);
  e.in_notes.place = [&](const Chunk& c) { return c.message % 2 ? there.data() : nullptr; };
  for (MessageId m = 0; m < 4; m++) {
    ASSERT_TRUE(e.poll_until([&] { return e.out->has_room(clock_now()); }));
    ASSERT_EQ(e.out->put(e.out_notes, whole(m, m == 2 ? 16 : data.size()), data.data(), clock_now()),
              Post::ok);
  }
  ASSERT_TRUE(e.poll_until([&] { return e.in_notes.arrived.size() == 2; }));
  EXPECT_EQ(e.in_notes.landed.size(), 4u);
  EXPECT_EQ(e.in_notes.arrived[0].message, 1u);
  EXPECT_EQ(e.in_notes.arrived[1].message, 3u);
  EXPECT_EQ(there, data);
}

TEST(TcpLink, SaysWhichPathItIs) {
  Ends e;
  EXPECT_EQ(e.out->describe(), "test link");
  EXPECT_GE(e.out->descriptor(), 0);
  e.out->fence();
  EXPECT_EQ(e.out->descriptor(), -1);
}

}  // namespace
}  // namespace megascale::tcp
