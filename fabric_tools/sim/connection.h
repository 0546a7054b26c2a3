// A queue pair, both ends of it: what its sender and its receiver know. Small, for there may be hundreds of
// thousands.
#pragma once
#include <memory>

#include "cc/controller.h"
#include "fabric_tools/sim/packet.h"
#include "fabric_tools/sim/packet_set.h"
#include "fabric_tools/sim/ticks.h"

namespace megascale::sim {

struct Message {
  uint64_t tag;
  Bytes bytes;
  Bytes first_byte;  // of the connection's stream
  Tick posted;
  uint32_t connection;
  uint32_t first_psn, end_psn;
  uint32_t next;  // of the connection, in order
};

struct alignas(64) Connection {
  enum class State : uint8_t {
    kFree,     // the place is not used
    kIdle,     // nothing to send, or it may not
    kReady,    // in its NIC's round
    kWaiting,  // for its time, in its NIC's list of those
  };

  // Lines of the cache: what receivers need, and both; what senders need; what they need besides; the rest.
  uint32_t source = 0, destination = 0;  // NICs
  uint32_t entropy = 0;
  uint32_t path = 0;  // in Paths
  uint32_t scoreboard = kNone;
  uint32_t expected = 0;                         // receiver: first psn that is missing
  uint32_t delivering = kNone, deliver_end = 0;  // receiver: first message not delivered; the psn after it
  Bytes received = 0;                            // receiver: payload
  uint32_t since_ack = 0;                        // receiver: packets
  uint32_t before = kNone, after = kNone;        // in the NIC's round
  uint32_t lost = 0;                             // selective: packets in [resend, lost_end) to be sent again
  uint16_t last_size = 0;                        // on the wire, of the packet that was sent last
  uint16_t generation = 0;
  State state = State::kFree;
  bool nacked : 1 = false;    // receiver, go-back-N: has told what is missing
  bool marked : 1 = false;    // receiver: CE since the last acknowledgement
  bool replying : 1 = false;  // a reply is scheduled
  bool flushing : 1 = false;  // so is a look at `held`
  uint8_t backoff = 0;        // timeouts in a row

  std::unique_ptr<Controller> controller;
  Bytes window = 0;  // the controller's answers, as of its last signal
  double pace = 0;   // ticks for each byte on the wire
  Bytes sent_bytes = 0, acked_bytes = 0;
  uint32_t next_psn = 0, una = 0,
           end_psn = 0;                     // to be sent next; first not acknowledged; end of what is posted
  uint32_t sent_psn = 0;                    // first never sent
  uint32_t oldest = kNone, oldest_end = 0;  // message that is not acknowledged; the psn after it

  Bytes lost_bytes = 0;
  Tick last_send = 0, due = 0;
  Tick smoothed_rtt = 0;                                             // 0: not known
  Tick deadline = kNoTick, timeout_at = kNoTick, tick_at = kNoTick;  // *_at: of the event that counts
  uint32_t sending = kNone, newest = kNone;                          // messages

  uint32_t resend = 0, lost_end = 0;
  uint32_t highest = 0;           // selective: after the highest psn that was acknowledged
  uint32_t congested_rounds = 0;  // PLB (SIGCOMM 2022): rounds are windows of data
  Bytes round_end = 0, round_bytes = 0, round_marked = 0;
  Tick base_rtt = 0;
  Tick last_cnp = kNoTick, last_reply = 0;
  Fifo replies;                         // receiver: that wait in its host
  Bytes posted_bytes = 0, granted = 0;  // of the stream; `granted`: admission, as the sender knows

  Tick active_since = 0, active = 0;
  Bytes delivered = 0;
  uint32_t held = kNone;  // receiver: the newest packet that is not acknowledged yet

  Bytes inflight() const {
    const Bytes settled = acked_bytes + lost_bytes;
    return sent_bytes > settled ? sent_bytes - settled : 0;
  }
  // Something is on its way, or was and nothing has been heard of it.
  bool outstanding() const { return una + lost != next_psn; }
};

static_assert(sizeof(Connection) == 320);

// Selective retransmission, once something came out of order.
struct Scoreboard {
  PacketSet acked;  // above una, as the sender knows
  PacketSet got;    // above expected
};

}  // namespace megascale::sim
