// Packets, in one pool: a queue is a chain of indices through it, so that moving a packet moves 4 bytes.
#pragma once
#include <cstdint>
#include <vector>

#include "cc/controller.h"
#include "fabric_tools/sim/event_queue.h"
#include "fabric_tools/sim/ticks.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

enum class PacketKind : uint8_t {
  kData,
  kAck,
  kNack,      // go-back-N: `cumulative` is wanted again
  kCnp,       // congestion notification
  kAnnounce,  // receiver-driven admission: `total` bytes want to be sent
  kGrant,     // and so many may be
};

struct Packet {
  union {
    Tick at;        // waiting in a host: when it leaves; held back there: when it came
    uint32_t port;  // on a wire: the port that sent it
  };
  Tick sent;    // when its NIC began to send it; in an answer: that of the packet it answers
  Bytes total;  // in an answer: payload received so far; in announcements and grants: what they are about
  uint32_t connection;
  uint32_t next;         // in the queue it is in
  uint32_t destination;  // NIC
  uint32_t entropy;      // what hashes see of it
  union {
    uint32_t ingress;  // data: the port of this switch that it came in by
    uint32_t hold;     // answers: nanoseconds in the receiver's host
  };
  uint32_t telemetry;  // in Packets; kNone: not wanted
  uint32_t psn;        // packet sequence number; in an answer: that of the packet it answers
  union {
    uint32_t cumulative;  // answers: the first psn that is missing
    uint32_t turn;        // data: its turn among the ports it is sprayed over
  };
  uint16_t size;        // on the wire
  uint16_t generation;  // of the connection's place: tells packets of a closed connection
  PacketKind kind;
  bool marked;  // CE
  bool asks;    // for an acknowledgement: the last of a message, or of what the window lets go
  uint8_t hops;
};
static_assert(sizeof(Packet) == 64, "a packet is one cache line");

inline constexpr size_t kMostHops = 8;
struct TelemetryRecord {
  uint32_t next = kNone;
  uint32_t count = 0;
  HopReport hops[kMostHops];
};

// Things with a `next`, by index. A reference is good until the next take().
template <class T>
class Pool {
 public:
  T& operator[](uint32_t id) { return items_[id]; }
  const T& operator[](uint32_t id) const { return items_[id]; }
  uint32_t take() {
    if (free_ == kNone) {
      const uint32_t id = new_index(items_.size());
      items_.emplace_back();
      return id;
    }
    const uint32_t id = free_;
    free_ = items_[id].next;
    return id;
  }
  void give_back(uint32_t id) {
    items_[id].next = free_;
    free_ = id;
  }
  void reserve(size_t count) { items_.reserve(count); }

 private:
  std::vector<T> items_;
  uint32_t free_ = kNone;
};

class Packets {
 public:
  Packets() { pool_.reserve(1 << 12); }
  Packet& operator[](uint32_t id) { return pool_[id]; }
  void fetch(uint32_t id) const { __builtin_prefetch(&pool_[id]); }
  uint32_t take() { return pool_.take(); }
  void give_back(uint32_t id) {
    if (pool_[id].telemetry != kNone) telemetry_.give_back(pool_[id].telemetry);
    pool_.give_back(id);
  }

  uint32_t take_telemetry() {
    const uint32_t id = telemetry_.take();
    telemetry_[id].count = 0;
    return id;
  }
  TelemetryRecord& telemetry(uint32_t id) { return telemetry_[id]; }

 private:
  Pool<Packet> pool_;
  Pool<TelemetryRecord> telemetry_;
};

struct Fifo {
  uint32_t head = kNone, tail = kNone;

  bool empty() const { return head == kNone; }
  void push(Packets& packets, uint32_t id) {
    packets[id].next = kNone;
    if (head == kNone) head = id;
    else packets[tail].next = id;
    tail = id;
  }
  uint32_t pop(Packets& packets) {
    const uint32_t id = head;
    head = packets[id].next;
    return id;
  }
};

}  // namespace megascale::sim
