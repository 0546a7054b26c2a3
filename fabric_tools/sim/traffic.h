// What is sent, and after what: the simulator asks a Traffic what to post and tells it what was delivered.
//
// A connection is one queue pair: from one NIC to another, with its own controller, hash and order. It lives
// as long as the Traffic keeps it. Messages of one connection are delivered in the order in which they were
// posted.
#pragma once
#include <cstdint>

#include "cc/units.h"

namespace megascale::sim {

using ConnectionId = uint32_t;

class Wire {
 public:
  virtual ~Wire() = default;
  virtual ConnectionId connect(uint32_t source_nic, uint32_t destination_nic) = 0;
  // `tag` comes back with the delivery. At `at`, or now when that has passed. A message of 0 bytes is one
  // packet.
  virtual void post(ConnectionId, Bytes, uint64_t tag, Time at) = 0;
  // After its last delivery; the id may be given out again.
  virtual void close(ConnectionId) = 0;
  // Calls Traffic::woken() with `tag` at `at`, or as soon as that has passed: for messages whose time is
  // known but whose connection must not wait for it.
  virtual void wake(Time at, uint64_t tag) = 0;
};

struct Delivery {
  ConnectionId connection;
  uint64_t tag;
  Time at;  // its last byte is at the receiver's host
};

class Traffic {
 public:
  virtual ~Traffic() = default;
  virtual void begin(Wire&) = 0;
  virtual void delivered(Wire&, const Delivery&) = 0;
  virtual void woken(Wire&, uint64_t /*tag*/, Time /*now*/) {}
  virtual bool finished() const = 0;         // nothing more will be posted, and all was delivered
  virtual double progress() const = 0;       // 0 to 1
  virtual uint64_t connections() const = 0;  // at most at once; for the estimate of memory
};

}  // namespace megascale::sim
