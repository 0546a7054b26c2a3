// What a link is: one path between two NIC ports for one epoch. It never revives; it is replaced. These are
// the interfaces between rails/ (which makes an immortal connection of mortal links) and the links
// themselves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cc/units.h"

namespace megascale {

// Numbers the links of one connection in the order in which they were dialled; 0 is none.
using Epoch = uint32_t;
// Numbers the messages of one connection, from 0.
using MessageId = uint64_t;

using ConstBytes = std::span<const std::byte>;

// Why a link broke.
enum class Cause : uint8_t {
  silence,         // data owed, and the other end's kernel or NIC does not acknowledge it
  reset,           // the other end, or someone between, reset it
  closed,          // the other end closed it without saying goodbye
  interface_gone,  // our interface went down or away
  address_gone,    // our address was taken off the interface
  kernel_error,    // our kernel or NIC gave up
  protocol,        // the other end said what it must not say
  unreachable,     // a dial found no answer
  refused,         // a dial was turned down
};
const char* to_string(Cause);

// A message travels in chunks. The cut is fixed when the message is posted: every chunk but the last has
// chunk_bytes, a multiple of 128, so that no 128-byte line is ever split between two links.
struct Chunk {
  MessageId message = 0;
  Bytes total = 0;  // size of the whole message
  uint32_t chunk_bytes = 0;
  uint16_t index = 0;

  static constexpr int kMost = 64;  // chunks of a message: one bit each in a word
  static constexpr Bytes kLine = 128;
  static constexpr Bytes kLargest = Bytes{1} << 34;  // of a message

  Bytes offset() const { return Bytes{index} * chunk_bytes; }
  Bytes bytes() const { return offset() + chunk_bytes <= total ? chunk_bytes : total - offset(); }
  int count() const { return total == 0 ? 1 : static_cast<int>((total + chunk_bytes - 1) / chunk_bytes); }
  // Whether a chunk that came from outside is one that a correct peer can send.
  bool plausible() const {
    return chunk_bytes > 0 && chunk_bytes % kLine == 0 && total <= kLargest &&
           total <= Bytes{chunk_bytes} * kMost && index < count();
  }
  // How a message is cut: pieces of at least `smallest`, at most kMost of them.
  static uint32_t cut(Bytes total, Bytes smallest) {
    Bytes piece = (total + kMost - 1) / kMost;
    if (piece < smallest) piece = smallest;
    return static_cast<uint32_t>((piece + kLine - 1) / kLine * kLine);
  }
};

enum class Post : uint8_t { ok, again, broken };

class Link;

// Implemented by rails/: what a link tells of. All calls come from inside Link's own, those that take a Sink.
class Sink {
 public:
  virtual ~Sink() = default;
  // Receiver: where this chunk belongs; null: nobody wants it (again), throw its bytes away and do not tell
  // of it. A link writes there until it says placed(), and asks again before it would write a second time.
  virtual std::byte* land(Link&, const Chunk&) = 0;
  // Receiver: the whole chunk is visible at the place that land() named.
  virtual void placed(Link&, const Chunk&) = 0;
  // A record that the other end said. Records of one link arrive in order, once, or the link breaks.
  virtual void heard(Link&, ConstBytes record) = 0;
  // Nothing that was sent in this link's epoch can land any more. The link may be destroyed.
  virtual void fenced(Link&) = 0;
  // The link is of no more use. Said once. It must still be fenced; what it tells of until then proves
  // nothing any more, and is not believed.
  virtual void broke(Link&, Cause) = 0;
};

// A link between one sender and one receiver. Not thread-safe: its connection's owner drives it.
class Link {
 public:
  virtual ~Link() = default;
  // Whether put() would take a chunk now. Controller and pacing are inside.
  virtual bool has_room(Time now) = 0;
  // Sends a chunk, of which `data` is the first byte. The bytes stay untouched until the receiver has
  // acknowledged the message or this link is destroyed.
  virtual Post put(Sink&, const Chunk&, const std::byte* data, Time now) = 0;
  // Sends a record of at most kRecord bytes, in order with the others and with the chunks.
  virtual Post say(Sink&, ConstBytes record, Time now) = 0;
  static constexpr std::size_t kRecord = 1024;
  // Moves what can be moved without waiting.
  virtual void poll(Sink&, Time now) = 0;
  // Looks for silence; cheap enough for every few milliseconds, too dear for every poll.
  virtual void check(Sink&, Time now) = 0;
  // Asks that nothing of this epoch may land any more; Sink::fenced follows from a later poll. Idempotent.
  virtual void fence() = 0;
  // The local interface or address went away.
  virtual void lost(Sink&, Cause) = 0;
  // What a sleeping thread waits on, or -1; `wants_out`: bytes wait for the socket to take them.
  virtual int descriptor() const = 0;
  virtual bool wants_out() const = 0;
  // For people: "tcp 10.0.0.1 -> 10.0.0.2".
  virtual std::string describe() const = 0;
};

// Implemented by session/: makes links. All calls return at once; the answers come to Connection::dialled,
// Connection::dial_failed and Connection::peer_gone of the connection that asked.
class Dialer {
 public:
  virtual ~Dialer() = default;
  virtual void dial(int path, Epoch) = 0;
  virtual void give_up(Epoch) = 0;
  // Asks whether the peer's process lives, over every path.
  virtual void check_peer() = 0;
};

}  // namespace megascale
