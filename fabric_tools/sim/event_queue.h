// What happens next: a calendar of the near future and a heap of the far one (Brown, CACM 1988). Near events,
// nearly all, cost the same however many there are. Those of one tick come out in the order they went in.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "fabric_tools/sim/ticks.h"

namespace megascale::sim {

enum class EventKind : uint8_t {
  kArrive,     // packet: it is at the other end of its wire
  kWake,       // port: may have something to send
  kPause,      // port: the neighbour's pause has taken effect
  kResume,     // port: the neighbour lets it go
  kWatchdog,   // port: paused for too long?
  kTick,       // connection: its controller's tick
  kTimeout,    // connection: nothing came back?
  kReply,      // connection: its receiver's host sends an acknowledgement
  kLateReply,  // packet: an acknowledgement that others may have passed
  kFlush,      // connection: its receiver has held an acknowledgement back for long enough
  kNotify,     // NIC: sends a CNP
  kPost,       // message
  kTraffic,    // alarm: the traffic asked for it
  kFault,      // fault: begins or ends
  kReroute,    // link: hashes learn its state
  kSample,
  kDeadlock,  // look for a cycle
};

struct Event {
  Tick at;
  uint32_t order;  // of insertion; decides among those of one tick
  uint32_t what;   // kind and index

  EventKind kind() const { return static_cast<EventKind>(what >> kIndexBits); }
  uint32_t index() const { return what & ((1u << kIndexBits) - 1); }
  static constexpr unsigned kIndexBits = 27;
};
static_assert(sizeof(Event) == 16);
static_assert(static_cast<uint32_t>(EventKind::kDeadlock) < 1u << (32 - Event::kIndexBits));

// The index of one more where there are `count`; no event could tell those beyond apart.
inline uint32_t new_index(size_t count) {
  if (count >> Event::kIndexBits != 0)
    throw std::runtime_error("more than 134 million connections, messages, alarms or packets at once");
  return static_cast<uint32_t>(count);
}

class EventQueue {
 public:
  // `width` of a bucket, rounded down to a power of two ticks: best when a few events fall into each.
  // `buckets`: a power of two, at least 64. Both matter to speed only.
  explicit EventQueue(Tick width = 1024, size_t buckets = 4096)
      : shift_(static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(std::max<Tick>(width, 1)))) - 1),
        mask_(std::bit_ceil(std::max<size_t>(buckets, 64)) - 1),
        buckets_(mask_ + 1, kNoNode),
        occupied_((mask_ + 1) / 64) {}

  Tick now() const { return now_; }
  uint64_t popped() const { return popped_; }

  // What will be popped `count` pops after the next, if that is known already: for fetching what it needs.
  const Event* ahead(size_t count) const {
    return next_ + count < sorted_.size() ? &sorted_[next_ + count] : nullptr;
  }

  // At `at`, or now when that has passed.
  void push(Tick at, EventKind kind, uint32_t index) {
    const Event event{std::max(at, now_), order_++, static_cast<uint32_t>(kind) << Event::kIndexBits | index};
    const int64_t bucket = event.at >> shift_;
    if (bucket == current_) {
      insert_in_current(event);
    } else if (bucket <= current_ + static_cast<int64_t>(mask_)) {
      put(bucket, event);
    } else {
      far_.push_back(event);
      std::push_heap(far_.begin(), far_.end(), later);
    }
  }

  // False when nothing is left, or what comes next is after `end`, which is the time then. Moves now() to the
  // event's time.
  bool pop(Event& event, Tick end = kNoTick) {
    if (next_ == sorted_.size() && !advance()) return false;
    if (sorted_[next_].at > end) {
      now_ = end;
      return false;
    }
    event = sorted_[next_++];
    now_ = event.at;
    ++popped_;
    return true;
  }

 private:
  static constexpr uint32_t kNoNode = UINT32_MAX;
  struct Node {
    Event event;
    uint32_t next;
  };

  // The orders of two events that wait at once differ by less than 2^31.
  static bool earlier(const Event& a, const Event& b) {
    return a.at != b.at ? a.at < b.at : static_cast<int32_t>(a.order - b.order) < 0;
  }
  static bool later(const Event& a, const Event& b) { return earlier(b, a); }

  void put(int64_t bucket, const Event& event) {
    const size_t slot = static_cast<size_t>(bucket) & mask_;
    uint32_t node = free_;
    if (node == kNoNode) {
      node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    nodes_[node] = {event, buckets_[slot]};
    buckets_[slot] = node;
    occupied_[slot / 64] |= uint64_t{1} << slot % 64;
    ++near_;
  }

  void insert_in_current(const Event& event) {
    size_t place = sorted_.size();
    while (place > next_ && event.at < sorted_[place - 1].at) --place;
    sorted_.insert(sorted_.begin() + static_cast<ptrdiff_t>(place), event);
  }

  bool advance() {
    if (near_ == 0 && far_.empty()) return false;
    current_ = near_ > 0 ? next_occupied() : far_.front().at >> shift_;
    if (!far_.empty()) {
      current_ = std::min(current_, far_.front().at >> shift_);
      bring_near();
    }
    const size_t slot = static_cast<size_t>(current_) & mask_;
    sorted_.clear();
    next_ = 0;
    for (uint32_t node = buckets_[slot]; node != kNoNode;) {
      sorted_.push_back(nodes_[node].event);
      const uint32_t after = nodes_[node].next;
      nodes_[node].next = free_;
      free_ = node;
      node = after;
    }
    buckets_[slot] = kNoNode;
    occupied_[slot / 64] &= ~(uint64_t{1} << slot % 64);
    near_ -= sorted_.size();
    sort_current();
    return true;
  }

  // Nearly always a handful, the last that went in first.
  void sort_current() {
    std::reverse(sorted_.begin(), sorted_.end());
    if (sorted_.size() > 48) {
      std::sort(sorted_.begin(), sorted_.end(), earlier);
      return;
    }
    for (size_t i = 1; i < sorted_.size(); ++i) {
      const Event event = sorted_[i];
      size_t place = i;
      for (; place > 0 && earlier(event, sorted_[place - 1]); --place) sorted_[place] = sorted_[place - 1];
      sorted_[place] = event;
    }
  }

  void bring_near() {
    while (!far_.empty() && (far_.front().at >> shift_) <= current_ + static_cast<int64_t>(mask_)) {
      std::pop_heap(far_.begin(), far_.end(), later);
      put(far_.back().at >> shift_, far_.back());
      far_.pop_back();
    }
  }

  int64_t next_occupied() const {
    for (int64_t bucket = current_ + 1;;) {
      const size_t slot = static_cast<size_t>(bucket) & mask_;
      const uint64_t word = occupied_[slot / 64] >> slot % 64;
      if (word != 0) return bucket + std::countr_zero(word);
      bucket += static_cast<int64_t>(64 - slot % 64);
    }
  }

  const unsigned shift_;
  const size_t mask_;
  std::vector<uint32_t> buckets_;   // the node that was put into each last
  std::vector<uint64_t> occupied_;  // a bit for each bucket
  std::vector<Node> nodes_;
  uint32_t free_ = kNoNode;
  std::vector<Event> sorted_;   // the bucket that now() is in; what is before next_ is done
  size_t next_ = 0, near_ = 0;  // near_: in the buckets
  int64_t current_ = 0;
  std::vector<Event> far_;  // a heap
  Tick now_ = 0;
  uint64_t popped_ = 0;
  uint32_t order_ = 0;
};

}  // namespace megascale::sim
