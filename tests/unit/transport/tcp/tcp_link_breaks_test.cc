// How a TCP link ends: each way with its cause, told once, and after the fence nothing is written any more.
#include <sys/ioctl.h>

#include "tests/unit/transport/tcp/loopback.h"

namespace megascale::tcp {
namespace {

struct Victim {
  Socket other;
  std::unique_ptr<TcpLink> link;
  Notes notes;

  explicit Victim(Side side = Side::receives) {
    auto [a, b] = connected();
    other = std::move(a);
    link = link_over(std::move(b), side);
  }
  void say(const void* p, std::size_t n) {
    ASSERT_EQ(send(other.fd(), p, n, MSG_NOSIGNAL), static_cast<ssize_t>(n));
  }
  Cause cause() {
    EXPECT_TRUE(eventually([&] { return link->poll(notes, clock_now()), !notes.causes.empty(); }));
    for (int i = 0; i < 10; i++) link->poll(notes, clock_now());
    EXPECT_EQ(notes.causes.size(), 1u) << "said once";
    EXPECT_EQ(notes.fences, 1);
    return notes.causes.empty() ? Cause::refused : notes.causes[0];
  }
};

TEST(TcpLinkBreaks, TheOtherEndClosed) {
  Victim v;
  v.other = {};
  EXPECT_EQ(v.cause(), Cause::closed);
}

TEST(TcpLinkBreaks, TheOtherEndClosedInTheMiddleOfAChunk) {
  Victim v;
  std::vector<std::byte> there(1000);
  v.notes.place = [&](const Chunk&) { return there.data(); };
  Frame f = frame_of(whole(0, 1000), there.data());
  v.say(&f, sizeof f);
  v.say(there.data(), 500);
  v.other = {};
  EXPECT_EQ(v.cause(), Cause::closed);
  EXPECT_TRUE(v.notes.arrived.empty()) << "half a chunk is none";
}

TEST(TcpLinkBreaks, Reset) {
  Victim v;
  linger now{1, 0};
  setsockopt(v.other.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  v.other = {};
  EXPECT_EQ(v.cause(), Cause::reset);
}

TEST(TcpLinkBreaks, ResetFoundWhileWriting) {
  Victim v(Side::sends);
  linger now{1, 0};
  setsockopt(v.other.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  v.other = {};
  std::string word = "word";
  Post p = Post::ok;
  ASSERT_TRUE(
      eventually([&] { return (p = v.link->say(v.notes, bytes_of(word), clock_now())) == Post::broken; }));
  EXPECT_EQ(v.notes.causes, std::vector<Cause>{Cause::reset});
  EXPECT_EQ(v.link->put(v.notes, whole(0, 4), bytes_of(word).data(), clock_now()), Post::broken);
}

TEST(TcpLinkBreaks, GarbageIsAProtocolViolation) {
  Victim v;
  std::string garbage(sizeof(Frame), 'G');
  v.say(garbage.data(), garbage.size());
  EXPECT_EQ(v.cause(), Cause::protocol);
}

// Every field of a frame, spoiled: the link breaks for violating the protocol, and asks nobody for a place.
TEST(TcpLinkBreaks, HostileFramesBreakTheLinkBeforeAnythingLands) {
  const std::function<void(Frame&)> kSpoil[] = {
      [](Frame& f) { f.magic++; },
      [](Frame& f) { f.kind = 9; },
      [](Frame& f) { f.inside_bytes = 200; },
      [](Frame& f) { f.index = 500; },
      [](Frame& f) { f.chunk_bytes = 0; },
      [](Frame& f) { f.chunk_bytes = 130; },
      [](Frame& f) { f.length = ~0u; },
      [](Frame& f) { f.total = ~0ull; },
      [](Frame& f) { f.total = 0; },
      [](Frame& f) { f.kind = Frame::kRecord, f.length = 2000; },
  };
  auto data = pattern(1000);
  for (auto& spoil : kSpoil) {
    Victim v;
    Frame f = frame_of(whole(0, data.size()), data.data());
    spoil(f);
    v.say(&f, sizeof f);
    EXPECT_EQ(v.cause(), Cause::protocol);
    EXPECT_TRUE(v.notes.landed.empty());
  }
}

// A sender hears records only; its rails say "nowhere", and the bytes are thrown away without harm.
TEST(TcpLinkBreaks, AChunkSentToASenderIsThrownAwayFromTheStaging) {
  Victim v(Side::sends);
  auto data = pattern(300);
  Frame f = frame_of(whole(0, data.size()), data.data());
  std::vector<std::byte> stream(sizeof f + data.size());
  std::memcpy(stream.data(), &f, sizeof f);
  std::memcpy(stream.data() + sizeof f, data.data(), data.size());
  std::string word = "after it";
  Frame r = frame_of(bytes_of(word));
  stream.insert(stream.end(), reinterpret_cast<std::byte*>(&r), reinterpret_cast<std::byte*>(&r) + sizeof r);
  v.say(stream.data(), stream.size());
  ASSERT_TRUE(eventually([&] { return v.link->poll(v.notes, clock_now()), !v.notes.words.empty(); }));
  EXPECT_EQ(v.notes.words[0], word);
  EXPECT_TRUE(v.notes.arrived.empty());
}

// The fence: whatever comes later is written nowhere, although the place was named before.
TEST(TcpLinkBreaks, TheFenceStopsWriting) {
  Victim v;
  auto data = pattern(100'000);
  std::vector<std::byte> there(data.size());
  v.notes.place = [&](const Chunk&) { return there.data(); };
  Frame f = frame_of(whole(0, data.size()), data.data());
  v.say(&f, sizeof f);
  v.say(data.data(), 1000);
  ASSERT_TRUE(eventually([&] {
    return v.link->poll(v.notes, clock_now()), there[999] == data[999] && there[998] == data[998];
  }));
  v.link->fence();
  v.link->fence();  // idempotent
  auto before = there;
  ssize_t ignored = send(v.other.fd(), data.data() + 1000, 50'000, MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)ignored;
  for (int i = 0; i < 100; i++) v.link->poll(v.notes, clock_now());
  EXPECT_EQ(there, before);
  EXPECT_EQ(v.notes.fences, 1) << "told once";
  EXPECT_TRUE(v.notes.arrived.empty());
  EXPECT_TRUE(v.notes.causes.empty()) << "a link that was fenced on purpose did not break";
  EXPECT_EQ(v.link->say(v.notes, bytes_of("x"), clock_now()), Post::broken);
}

// One that broke and is fenced resets, so that the kernel does not retransmit for nothing.
TEST(TcpLinkBreaks, ABrokenLinkResetsItsConnection) {
  Victim v;
  std::string garbage(sizeof(Frame), 'G');
  v.say(garbage.data(), garbage.size());
  EXPECT_EQ(v.cause(), Cause::protocol);
  char b;
  int error = 0;
  ASSERT_TRUE(eventually([&] {
    ssize_t n = recv(v.other.fd(), &b, 1, MSG_DONTWAIT);
    error = n < 0 ? errno : 0;
    return error != EAGAIN;
  }));
  EXPECT_EQ(error, ECONNRESET);
}

// One that is fenced in peace, with bytes unread, still delivers what it said last.
TEST(TcpLinkBreaks, LastWordsSurviveAFenceWithBytesUnread) {
  Victim v;
  std::string unread(5000, 'u');
  v.say(unread.data(), unread.size());
  std::string last = "last words";
  ASSERT_EQ(v.link->say(v.notes, bytes_of(last), clock_now()), Post::ok);
  ASSERT_TRUE(eventually([&] {
    int n = 0;
    return ioctl(v.link->descriptor(), FIONREAD, &n) == 0 && n == 5000;
  }));
  v.link->fence();
  Frame f;
  std::size_t got = 0;
  ASSERT_TRUE(eventually([&] {
    ssize_t n = recv(v.other.fd(), reinterpret_cast<char*>(&f) + got, sizeof f - got, MSG_DONTWAIT);
    if (n > 0) got += static_cast<std::size_t>(n);
    return got == sizeof f;
  }));
  EXPECT_EQ(std::string(reinterpret_cast<char*>(f.inside), f.inside_bytes), last);
}

TEST(TcpLinkBreaks, ARailThatWentTakesItsLinksWithTheCause) {
  Victim v;
  v.link->lost(v.notes, Cause::address_gone);
  v.link->lost(v.notes, Cause::interface_gone);
  EXPECT_EQ(v.notes.causes, std::vector<Cause>{Cause::address_gone});
}

// An application that reads nothing for long is no silence: its kernel answers.
TEST(TcpLinkBreaks, ASlowReaderIsNotSilence) {
  Tuning small;
  small.send_buffer = small.receive_buffer = 256 << 10;
  auto [a, b] = connected(small);
  auto link = link_over(std::move(a), Side::sends, 250ms);
  Notes notes;
  auto data = pattern(8 << 20);
  ASSERT_EQ(link->put(notes, whole(0, data.size()), data.data(), clock_now()), Post::ok);
  for (Time end = clock_now() + 1500ms; clock_now() < end; std::this_thread::sleep_for(5ms)) {
    link->poll(notes, clock_now());
    link->check(notes, clock_now());
  }
  EXPECT_TRUE(notes.causes.empty());
}

}  // namespace
}  // namespace megascale::tcp
