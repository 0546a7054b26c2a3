// The network between NICs: ports with their queues and wires, shared-buffer switches, marking, pausing,
// losses and the counters of all these.
//
// One event for each packet and hop: when a port begins to send, the arrival at the other end is known. A
// port that has more to send wakes when it is free.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "fabric_tools/random.h"
#include "fabric_tools/sim/event_queue.h"
#include "fabric_tools/sim/histogram.h"
#include "fabric_tools/sim/packet.h"
#include "fabric_tools/sim/routes.h"
#include "fabric_tools/sim/simulation.h"

namespace megascale::sim {

// One direction of a link, at the end that sends; and, as the place where the opposite direction comes in,
// the account of what came in and is still in its switch's buffer. In the order in which lines of the cache
// are needed: by every packet, by those that wait and as they leave, by those that wait for long.
struct alignas(64) FabricPort {
  Tick busy_until = 0, wake_at = kNoTick;
  Fifo control, data;
  double per_byte = 0;  // ticks
  Tick delay = 0;       // of the wire, and of the switch that it leads to
  uint32_t peer = 0;    // NIC or switch that it leads to
  bool to_nic : 1 = false;
  bool from_nic : 1 = false;
  bool failed : 1 = false;  // has been down
  bool paused : 1 = false;
  bool down : 1 = false;
  bool draining : 1 = false;  // by the watchdog
  bool pausing : 1 = false;   // coming in: has asked the neighbour to pause
  uint8_t tier = 0;           // of the link

  uint64_t queued = 0;  // bytes in `data`
  Tick queue_changed = 0;
  double queue_area = 0;  // bytes x ticks
  Tick busy = 0;
  uint64_t sent_bytes = 0, packets = 0;
  uint32_t owner = 0;

  uint64_t shared = 0, over = 0;  // coming in: bytes in the shared buffer; in the headroom
  Bytes headroom = 0;
  float kmin = 0, kmax = 0;
  Tick paused_since = 0, paused_for = 0;
  Tick down_at = 0;   // last
  Tick asked_at = 0;  // coming in: for the last pause
};
static_assert(sizeof(FabricPort) == 192);

struct FabricTotals {
  uint64_t marked = 0, dropped = 0, pauses = 0, watchdogs = 0;
  Tick last_pause = 0;
};

class Fabric {
 public:
  Fabric(const Topology&, const Model&, uint64_t seed, EventQueue&, Packets&);

  // Events. arrive() is true when the packet is at its NIC.
  bool arrive(uint32_t packet);
  void serve(uint32_t port);  // of a switch
  void pause(uint32_t port);
  // True when a NIC's port may send again: the NIC serves it.
  bool resume(uint32_t port);
  void watch(uint32_t port);
  // Looks for a cycle of paused queues that wait for each other; true when there is one. It goes on looking
  // as long as anything is paused.
  bool look_for_deadlock();

  // Fetches what serving a port will need.
  void fetch(uint32_t port) const {
    __builtin_prefetch(&ports_[port]);
    __builtin_prefetch(&ports_[port].queued);
  }

  // For NICs: their ports have a control queue here and pull data from their connections.
  uint32_t nic_port(uint32_t nic) const { return up_port(topology_.nics[nic].link); }
  FabricPort& port(uint32_t id) { return ports_[id]; }
  void wake(uint32_t port, Tick at) {
    if (at >= ports_[port].wake_at) return;
    ports_[port].wake_at = at;
    events_.push(at, EventKind::kWake, port);
  }
  // A wake-up event counts only if it is the latest that was asked for.
  bool woken(uint32_t port) {
    if (ports_[port].wake_at != events_.now()) return false;
    ports_[port].wake_at = kNoTick;
    return true;
  }
  void send_control(uint32_t port, uint32_t packet);
  bool send_next_control(uint32_t port);
  void transmit(uint32_t port, uint32_t packet);

  // Faults. `share` of the link's rate that is left; 0: down.
  void set_link(uint32_t link, double share);
  bool link_usable(uint32_t link) const { return !ports_[up_port(link)].down; }
  // Hashes learn the state of the link.
  void reroute(uint32_t link);

  void settle();  // counters up to now
  // As long as no link is down: what a path is made of.
  const Routes& healthy_routes() const { return healthy_ ? *healthy_ : routes_; }
  std::span<const FabricPort> ports() const { return ports_; }
  const FabricTotals& totals() const { return totals_; }
  const Histogram& queues(uint32_t tier) const { return queues_[tier]; }
  uint32_t tiers() const { return static_cast<uint32_t>(queues_.size()); }
  std::vector<uint64_t> pauses_of_tiers() const { return pauses_; }

 private:
  struct SwitchState {
    uint64_t seed = 0;
    uint64_t used = 0;  // of the shared buffer
  };

  void set_rate(uint32_t port, double share);
  void build_ports();
  void build_headroom();
  uint32_t choose(uint32_t at_switch, Packet&) const;
  void forward(uint32_t in_port, uint32_t packet);
  void forward_data(uint32_t in, uint32_t out, uint32_t packet);
  bool admit(uint32_t in, uint32_t out, uint32_t size);
  void release(uint32_t at_switch, uint32_t in, uint32_t size);
  uint32_t dequeue(uint32_t port);
  void leave(FabricPort&, Packet&);
  bool mark(const FabricPort&, uint64_t queue);
  void ask(uint32_t in, EventKind);
  void change_queue(FabricPort&, uint64_t bytes);
  void drop(uint32_t packet);
  void flush_data(uint32_t port);
  bool lost_on_the_wire(const FabricPort&, const Packet&) const;
  void end_pause(FabricPort&);
  std::vector<std::vector<uint32_t>> waits_for() const;

  const Topology& topology_;
  const Switches model_;
  const Hosts hosts_;
  EventQueue& events_;
  Packets& packets_;
  Random random_;
  Routes routes_;
  std::optional<Routes> healthy_;  // once routes_ are others
  std::vector<bool> routed_;       // links, as hashes see them
  std::vector<FabricPort> ports_;
  std::vector<SwitchState> switches_;
  std::vector<Histogram> queues_;
  std::vector<uint64_t> pauses_;
  FabricTotals totals_;
  uint32_t paused_ports_ = 0;
  bool looking_for_deadlock_ = false;
};

}  // namespace megascale::sim
