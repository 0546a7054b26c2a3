#include "transport/tcp/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace megascale::tcp {
namespace {

const Chunk kChunk{.message = 7, .total = 1'000'000, .chunk_bytes = 512 << 10, .index = 1};

Frame good_chunk() {
  static const std::vector<std::byte> data(1'000'000);
  return frame_of(kChunk, data.data());
}

TEST(Frame, ChunksComeBackAsTheyWere) {
  Frame f = good_chunk();
  ASSERT_TRUE(f.plausible());
  EXPECT_EQ(f.length, 1'000'000u - (512 << 10));
  EXPECT_EQ(f.inside_bytes, 0);
  Chunk c = f.chunk();
  EXPECT_EQ(c.message, 7u);
  EXPECT_EQ(c.total, 1'000'000u);
  EXPECT_EQ(c.index, 1);
}

TEST(Frame, SmallChunksTravelInside) {
  for (std::size_t n : {0, 1, 31, 32}) {
    std::vector<std::byte> data(n, std::byte{0x5a});
    Frame f = frame_of(Chunk{.message = 1, .total = n, .chunk_bytes = 128}, data.data());
    EXPECT_TRUE(f.plausible()) << n;
    EXPECT_EQ(f.length, 0u);
    EXPECT_EQ(f.inside_bytes, n);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), f.inside));
  }
  std::vector<std::byte> data(33);
  Frame f = frame_of(Chunk{.message = 1, .total = 33, .chunk_bytes = 128}, data.data());
  EXPECT_TRUE(f.plausible());
  EXPECT_EQ(f.length, 33u);
}

TEST(Frame, RecordsOfEverySize) {
  for (std::size_t n : {1, 32, 33, 1024}) {
    std::vector<std::byte> data(n);
    EXPECT_TRUE(frame_of(ConstBytes(data)).plausible()) << n;
  }
  std::vector<std::byte> data(1025);
  EXPECT_FALSE(frame_of(ConstBytes(data)).plausible()) << "longer than a record may be";
  EXPECT_FALSE(frame_of(ConstBytes()).plausible()) << "a record of nothing";
}

// Each field of a good frame, made hostile.
TEST(Frame, HostileChunkHeadersAreNotPlausible) {
  const std::pair<const char*, std::function<void(Frame&)>> kHostile[] = {
      {"magic", [](Frame& f) { f.magic ^= 1; }},
      {"kind 0", [](Frame& f) { f.kind = 0; }},
      {"kind 3", [](Frame& f) { f.kind = 3; }},
      {"kind 255", [](Frame& f) { f.kind = 255; }},
      {"more inside than there is room for", [](Frame& f) { f.inside_bytes = 33; }},
      {"most inside", [](Frame& f) { f.inside_bytes = 255; }},
      {"both inside and behind", [](Frame& f) { f.inside_bytes = 1; }},
      {"index behind the last", [](Frame& f) { f.index = 2; }},
      {"largest index", [](Frame& f) { f.index = 0xffff; }},
      {"no chunk size", [](Frame& f) { f.chunk_bytes = 0; }},
      {"a chunk size that splits lines", [](Frame& f) { f.chunk_bytes += 64; }},
      {"a chunk size that makes too many", [](Frame& f) { f.chunk_bytes = 128; }},
      {"largest chunk size", [](Frame& f) { f.chunk_bytes = 0xffffff80; }},
      {"length too short", [](Frame& f) { f.length--; }},
      {"length too long", [](Frame& f) { f.length++; }},
      {"length nothing", [](Frame& f) { f.length = 0; }},
      {"largest length", [](Frame& f) { f.length = 0xffffffff; }},
      {"another total", [](Frame& f) { f.total++; }},
      {"a total above the limit", [](Frame& f) { f.total = Chunk::kLargest + 1; }},
      {"largest total", [](Frame& f) { f.total = ~0ull; }},
      {"total of nothing", [](Frame& f) { f.total = 0; }},
  };
  for (auto& [what, spoil] : kHostile) {
    Frame f = good_chunk();
    spoil(f);
    EXPECT_FALSE(f.plausible()) << what;
  }
}

TEST(Frame, HostileRecordHeadersAreNotPlausible) {
  std::vector<std::byte> data(100);
  Frame f = frame_of(ConstBytes(data));
  f.length = Link::kRecord + 1;
  EXPECT_FALSE(f.plausible());
  f.length = 0;
  EXPECT_FALSE(f.plausible());
  f.inside_bytes = 33;
  EXPECT_FALSE(f.plausible());
}

// A chunk that plausible() lets through never reaches past the end of its message, whatever else it says.
TEST(Frame, NoPlausibleFrameReachesBehindItsMessage) {
  uint64_t x = 88172645463325252ull;
  auto random = [&] {
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
  };
  int plausible = 0;
  for (int i = 0; i < 200'000; i++) {
    Frame f;
    f.kind = Frame::kChunk;
    f.index = static_cast<uint16_t>(random() % 70);
    f.chunk_bytes = static_cast<uint32_t>(random() % 64 * (random() % 4 ? 128 : 100));
    f.total = random() % 4 ? random() % 20'000 : random();
    Chunk c = f.chunk();
    f.length =
        random() % 8 && c.chunk_bytes ? static_cast<uint32_t>(c.bytes()) : static_cast<uint32_t>(random());
    if (!f.plausible()) continue;
    plausible++;
    ASSERT_LE(c.offset() + c.bytes(), c.total);
    ASSERT_EQ(f.length, c.bytes());
    ASSERT_LT(c.index, Chunk::kMost);
  }
  EXPECT_GT(plausible, 1000) << "the test must see some that pass";
}

}  // namespace
}  // namespace megascale::tcp
