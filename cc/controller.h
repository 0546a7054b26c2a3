// The interface of congestion control: what a connection saw on one path goes in, a rate and a window come
// out.
//
// A controller is arithmetic. It has no clock, no thread, no I/O and takes no memory after it was built;
// whoever drives it passes the time, so the object that paces a NIC is the object that the simulator
// compares. One controller serves one connection on one path and is called by one thread at a time.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "cc/units.h"

namespace megascale {

inline constexpr Bytes kNoWindow = std::numeric_limits<Bytes>::max();

// The receiver said that data arrived.
struct Ack {
  Time now;
  uint64_t sequence = 0;    // the first byte, since the connection began, that is not acknowledged yet
  Bytes bytes = 0;          // newly acknowledged by this one
  Duration rtt{0};          // from the send of the newest acknowledged packet until now; zero: not measured
  Duration remote_hold{0};  // the part of it that the receiver's host kept the packet or the acknowledgement
                            // (Swift, SIGCOMM 2020, 3.2: what is left is the fabric's); zero: not known
  bool ecn_marked = false;  // a packet that it covers carried CE (RFC 3168)
  unsigned hops = 0;        // switches on the way there; zero: not known
};

// What one switch on the path wrote into a packet (INT, as HPCC reads it: SIGCOMM 2019, 3.2).
struct HopReport {
  Time at;                // when the packet left that switch, by the switch's clock
  Bytes queue = 0;        // bytes in the egress queue then
  Bytes transmitted = 0;  // by that port, since it started
  Rate capacity;          // of that port
};

struct Telemetry {
  Time now;
  uint64_t sequence = 0;            // as in the acknowledgement that brought it
  std::span<const HopReport> hops;  // from the sender's end on; valid during the call only
};

class Controller {
 public:
  virtual ~Controller() = default;
  Controller() = default;
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  virtual std::string_view name() const = 0;
  virtual bool wants_telemetry() const { return false; }  // else telemetry() need not be called

  // Signals, in the order of time. One that an algorithm does not use costs an empty call.
  virtual void sent(Time, Bytes /*bytes*/, Bytes /*inflight, with these*/) {}
  virtual void ack(const Ack&) {}
  virtual void cnp(Time) {}                   // a congestion notification packet (RoCEv2, IBTA annex A17)
  virtual void loss(Time, Bytes /*lost*/) {}  // found without a timeout: a hole, a NACK
  virtual void timeout(Time) {}  // nothing came back for so long that all in flight counts as lost
  virtual void telemetry(const Telemetry&) {}
  virtual void tick(Time) {}  // at next_tick() or later

  // The answers, good until the next signal. Both hold: packets leave no faster than rate(), and no more than
  // window() bytes are unacknowledged.
  virtual Rate rate() const = 0;
  virtual Bytes window() const = 0;  // may be under one packet: then one packet is paced by rate()
  virtual Time next_tick() const { return kNever; }
};

}  // namespace megascale
