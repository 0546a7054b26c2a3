// The records that the two ends of a connection say to each other over its links. Little-endian, first byte
// the kind, version 1 (the session's handshake refuses other versions).
//
//   STATE   receiver -> sender   u8 kind, u64 completed, u64 granted
//   OPEN    sender -> receiver   u8 kind, u32 sequence (1, 2, ...), u32 issued, u8 n, n x u32 epochs that
//                                live or are being dialled. Every epoch up to `issued` that is not named is
//                                to be fenced, then RESUME is the answer.
//   RESUME  receiver -> sender   u8 kind, u32 sequence of the OPEN, u64 completed, u64 granted, u8 n,
//                                n x u64: which chunks of the messages from `completed` on have been placed
//   PING    either way           u8 kind: makes the other end's kernel or NIC acknowledge
//   LEAVE   sender -> receiver   u8 kind: this link is retired on purpose; nothing is owed on it
//   BYE     either way           u8 kind, u8 reason: the connection ends
#pragma once
#include <array>
#include <cstring>
#include <optional>

#include "transport/link.h"

namespace megascale::wire {

enum class Kind : uint8_t { state = 1, open, resume, ping, leave, bye };
enum class Reason : uint8_t { closed = 0, aborted = 1, message_too_large = 2, protocol = 3 };

inline constexpr int kEpochs = 16;  // that an OPEN can name
inline constexpr int kWindow = 64;  // messages that can be under way on a connection

struct State {
  uint64_t completed = 0, granted = 0;
};
struct Open {
  uint32_t sequence = 0;
  Epoch issued = 0;
  uint8_t n = 0;
  std::array<Epoch, kEpochs> alive{};

  bool names(Epoch e) const {
    for (std::size_t i = 0; i < n; i++)
      if (alive[i] == e) return true;
    return false;
  }
};
struct Resume {
  uint32_t sequence = 0;
  uint64_t completed = 0, granted = 0;
  uint8_t n = 0;
  std::array<uint64_t, kWindow> placed{};
};
struct Bye {
  Reason reason = Reason::closed;
};

// A record being written, or read with every length checked.
class Record {
 public:
  ConstBytes bytes() const { return {data_.data(), size_}; }
  template <class T>
  Record& add(T v) {
    std::memcpy(data_.data() + size_, &v, sizeof v);
    size_ += sizeof v;
    return *this;
  }

 private:
  std::array<std::byte, Link::kRecord> data_{};
  std::size_t size_ = 0;
};

inline Record write(const State& s) { return Record().add(Kind::state).add(s.completed).add(s.granted); }
inline Record write(const Open& o) {
  Record r;
  r.add(Kind::open).add(o.sequence).add(o.issued).add(o.n);
  for (int i = 0; i < o.n; i++) r.add(o.alive[static_cast<std::size_t>(i)]);
  return r;
}
inline Record write(const Resume& s) {
  Record r;
  r.add(Kind::resume).add(s.sequence).add(s.completed).add(s.granted).add(s.n);
  for (int i = 0; i < s.n; i++) r.add(s.placed[static_cast<std::size_t>(i)]);
  return r;
}
inline Record write(const Bye& b) { return Record().add(Kind::bye).add(b.reason); }
inline Record write_ping() { return Record().add(Kind::ping); }
inline Record write_leave() { return Record().add(Kind::leave); }

class Reader {
 public:
  explicit Reader(ConstBytes b) : b_(b) {}
  template <class T>
  bool get(T& v) {
    if (b_.size() < sizeof v) return false;
    std::memcpy(&v, b_.data(), sizeof v);
    b_ = b_.subspan(sizeof v);
    return true;
  }
  bool end() const { return b_.empty(); }

 private:
  ConstBytes b_;
};

inline std::optional<Kind> kind_of(ConstBytes b) {
  if (b.empty()) return std::nullopt;
  auto k = static_cast<Kind>(b[0]);
  if (k < Kind::state || k > Kind::bye) return std::nullopt;
  return k;
}
inline std::optional<State> read_state(ConstBytes b) {
  Reader r(b.subspan(1));
  State s;
  if (!r.get(s.completed) || !r.get(s.granted) || !r.end()) return std::nullopt;
  return s;
}
inline std::optional<Open> read_open(ConstBytes b) {
  Reader r(b.subspan(1));
  Open o;
  if (!r.get(o.sequence) || !r.get(o.issued) || !r.get(o.n) || o.n > kEpochs) return std::nullopt;
  for (std::size_t i = 0; i < o.n; i++)
    if (!r.get(o.alive[i])) return std::nullopt;
  if (!r.end()) return std::nullopt;
  return o;
}
inline std::optional<Resume> read_resume(ConstBytes b) {
  Reader r(b.subspan(1));
  Resume s;
  if (!r.get(s.sequence) || !r.get(s.completed) || !r.get(s.granted) || !r.get(s.n) || s.n > kWindow)
    return std::nullopt;
  for (std::size_t i = 0; i < s.n; i++)
    if (!r.get(s.placed[i])) return std::nullopt;
  if (!r.end()) return std::nullopt;
  return s;
}
inline std::optional<Bye> read_bye(ConstBytes b) {
  Reader r(b.subspan(1));
  Bye v;
  if (!r.get(v.reason) || !r.end() || v.reason > Reason::protocol) return std::nullopt;
  return v;
}

}  // namespace megascale::wire
