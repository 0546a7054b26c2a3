// How chunks and records travel on a stream: frames of 64 bytes, each perhaps followed by its payload. What
// fits into the frame travels in it, so that a small message costs one read. Little-endian; version 1 (the
// handshake that comes before refuses other versions).
//
//   offset  0  u32  magic "MGF1"
//           4  u8   kind: 1 a chunk, 2 a record
//           5  u8   bytes in `inside`; 0 when the payload follows
//           6  u16  index of the chunk
//           8  u32  chunk_bytes: size of every chunk of the message but the last
//          12  u32  length of the payload that follows, 0 when it is inside
//          16  u64  message
//          24  u64  total size of the message
//          32  32 bytes inside
#pragma once
#include <cstring>

#include "transport/link.h"

namespace megascale::tcp {

inline constexpr uint32_t kMagic = 0x3146474d;  // "MGF1"

struct Frame {
  uint32_t magic = kMagic;
  uint8_t kind = 0;
  uint8_t inside_bytes = 0;
  uint16_t index = 0;
  uint32_t chunk_bytes = 0;
  uint32_t length = 0;
  uint64_t message = 0;
  uint64_t total = 0;
  std::byte inside[32]{};

  static constexpr uint8_t kChunk = 1, kRecord = 2;

  Chunk chunk() const { return {message, total, chunk_bytes, index}; }

  // Whether a frame that came from outside says nothing impossible.
  bool plausible() const {
    if (magic != kMagic || inside_bytes > sizeof inside || (inside_bytes && length)) return false;
    Bytes payload = inside_bytes + Bytes{length};
    if (kind == kRecord) return payload > 0 && payload <= Link::kRecord;
    return kind == kChunk && chunk().plausible() && payload == chunk().bytes();
  }
};
static_assert(sizeof(Frame) == 64 && offsetof(Frame, message) == 16 && offsetof(Frame, inside) == 32);

inline Frame frame_of(const Chunk& c, const std::byte* data) {
  Frame f;
  f.kind = Frame::kChunk;
  f.index = c.index;
  f.chunk_bytes = c.chunk_bytes;
  f.message = c.message;
  f.total = c.total;
  Bytes n = c.bytes();
  if (n <= sizeof f.inside) {
    f.inside_bytes = static_cast<uint8_t>(n);
    if (n) std::memcpy(f.inside, data, n);
  } else {
    f.length = static_cast<uint32_t>(n);
  }
  return f;
}

inline Frame frame_of(ConstBytes record) {
  Frame f;
  f.kind = Frame::kRecord;
  if (record.size() <= sizeof f.inside) {
    f.inside_bytes = static_cast<uint8_t>(record.size());
    if (!record.empty()) std::memcpy(f.inside, record.data(), record.size());
  } else {
    f.length = static_cast<uint32_t>(record.size());
  }
  return f;
}

}  // namespace megascale::tcp
