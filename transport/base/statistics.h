// What happened on each rail, counted from the start of the process, for the summary at exit and the "rail"
// event.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "cc/units.h"

namespace megascale {

// One rail's counters. Anybody may add to them at any time; no addition orders anything else.
struct RailStatistics {
  using Counter = std::atomic<uint64_t>;

  explicit RailStatistics(std::string rail_name) : name(std::move(rail_name)) {}

  const std::string name;

  // Sending and receiving are counted on cache lines of their own: two threads may be busy with one each.
  alignas(64) Counter bytes_sent{0};
  Counter messages_sent{0};
  alignas(64) Counter bytes_received{0};
  Counter messages_received{0};

  alignas(64) Counter retransmissions{0};  // by the transport below: TCP segments, RoCE packets, datagrams
  Counter ce_marks{0};                     // congestion experienced: bytes or packets, as the link can tell
  Counter flaps{0};                        // links declared dead
  Counter fenced{0};                       // links fenced, by either end's wish
  Counter chunks_replayed{0};
  Counter bytes_replayed{0};
  Counter handshakes_refused{0};  // strangers, wrong secrets, other versions

  // A round trip as measured: kept are the least, the last, and a mean smoothed by 1/8 (RFC 6298, 2.3).
  void saw_rtt(Duration);
  Duration rtt_min() const;  // zero: none was measured yet
  Duration rtt_last() const { return Duration(rtt_last_.load(std::memory_order_relaxed)); }
  Duration rtt_smoothed() const { return Duration(rtt_smoothed_.load(std::memory_order_relaxed)); }

  // One connection stood still for so long, from the first sign of a flap until its bytes moved again.
  void lost(Duration);
  Duration time_lost() const { return Duration(lost_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<int64_t> rtt_min_{INT64_MAX};
  std::atomic<int64_t> rtt_last_{0};
  std::atomic<int64_t> rtt_smoothed_{0};
  std::atomic<int64_t> lost_{0};
};

// Counts `n` more; relaxed, since counters order nothing.
inline void count(RailStatistics::Counter& counter, uint64_t n = 1) {
  counter.fetch_add(n, std::memory_order_relaxed);
}

// The counters of one rail, made at the first call and good until the process ends. A rail is named by what a
// person calls it (an interface, a device's port), never by something that a peer said.
RailStatistics& statistics_for(const std::string& rail);

// A table for people, a row a rail in order of name; empty when there are no rails.
std::string summary_table();

// One "rail" event a rail.
void emit_statistics();

}  // namespace megascale
