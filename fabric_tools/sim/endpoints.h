// The ends: NICs that take turns among their connections, senders that recover what was lost, receivers that
// answer. The controllers of cc/ are told what happens and obeyed.
#pragma once
#include <optional>
#include <vector>

#include "fabric_tools/random.h"
#include "fabric_tools/sim/admission.h"
#include "fabric_tools/sim/connection.h"
#include "fabric_tools/sim/deliveries.h"
#include "fabric_tools/sim/event_queue.h"
#include "fabric_tools/sim/fabric.h"
#include "fabric_tools/sim/packet.h"
#include "fabric_tools/sim/path.h"
#include "fabric_tools/sim/simulation.h"

namespace megascale::sim {

struct EndpointTotals {
  uint64_t data_packets = 0, retransmitted = 0, timeouts = 0, cnps = 0;
};

class Endpoints final : public Wire {
 public:
  // Throws std::invalid_argument when there is no such controller or it has no such parameter.
  Endpoints(const Setup&, EventQueue&, Packets&, Fabric&, Traffic&, Deliveries&);

  ConnectionId connect(uint32_t source_nic, uint32_t destination_nic) override;
  void post(ConnectionId, Bytes, uint64_t tag, Time at) override;
  void close(ConnectionId) override;
  void wake(Time at, uint64_t tag) override;

  // Fetches what a packet of the connection will need.
  void fetch(uint32_t connection) const {
    const char* begin = reinterpret_cast<const char*>(&connections_[connection]);
    for (int line = 0; line < 3; ++line) __builtin_prefetch(begin + line * 64);
  }

  // Events.
  void receive(uint32_t packet);  // by the NIC that it is for
  void serve(uint32_t nic);       // its port may send
  void on_post(uint32_t message);
  void on_traffic(uint32_t alarm);
  void on_tick(uint32_t connection);
  void on_timeout(uint32_t connection);
  void on_reply(uint32_t connection);
  void on_late_reply(uint32_t packet);
  void on_flush(uint32_t connection);
  void on_notify(uint32_t nic);
  void link_returned(uint32_t nic);

  void settle();  // counters of the connections that are still open
  const EndpointTotals& totals() const { return totals_; }

 private:
  struct Due {
    Tick at;
    uint32_t connection;
    bool operator<(const Due& other) const { return at > other.at; }  // for a heap with the earliest on top
  };
  struct Alarm {  // that the traffic asked for
    uint64_t tag = 0;
    uint32_t next = kNone;
  };
  struct NicState {
    uint32_t port = 0;
    uint32_t first = kNone, last = kNone;  // the round of ready connections
    std::vector<Due> due;                  // a heap of waiting ones
    Fifo notices;                          // CNPs that wait in the host
  };

  // endpoints.cc: connections and turns
  void append(uint32_t message);
  void count_connection(Connection&);
  void refresh(uint32_t connection);
  bool may_send(const Connection&) const;
  Tick due(const Connection&) const;
  void link(NicState&, uint32_t connection);
  void unlink(NicState&, uint32_t connection);
  void collect_due(NicState&);
  void kick(uint32_t nic, Tick at);
  uint32_t control_packet(PacketKind, uint32_t connection, bool to_source);

  // sender.cc
  void build(Connection&);
  void listen(Connection&, uint32_t connection);
  void send(uint32_t connection);
  void balance(Connection&);
  void on_answer(const Packet&);
  void advance(Connection&, uint32_t cumulative);
  Bytes note_out_of_order(Connection&, uint32_t psn);
  Bytes give_up_below(Connection&, uint32_t psn);
  Bytes rewind(Connection&, uint32_t psn);
  uint32_t reorder(const Connection&) const;
  void count_round(Connection&, Bytes newly, bool marked);
  void arm_timeout(Connection&, uint32_t connection);
  Tick timeout(const Connection&) const;
  uint32_t message_of(const Connection&, uint32_t psn) const;
  Bytes payload_of(const Connection&, uint32_t psn) const;
  Bytes offset_of(const Connection&, uint32_t psn) const;

  // receiver.cc
  void on_data(uint32_t packet);
  bool take_in(Connection&, const Packet&);
  void answer(Connection&, uint32_t packet, PacketKind, Tick held = 0);
  void hold_back(Connection&, uint32_t packet);
  void let_go(Connection&);
  void notify(Connection&, uint32_t connection);
  void deliver(uint32_t connection, uint16_t generation);
  void announce(Connection&, uint32_t connection);
  void grant(uint32_t nic);
  Scoreboard& board(Connection&);

  const Setup& setup_;
  const Hosts hosts_;
  const Topology& topology_;
  EventQueue& events_;
  Packets& packets_;
  Fabric& fabric_;
  Traffic& traffic_;
  Deliveries& deliveries_;
  const Recipe recipe_;
  const bool selective_;
  const Tick jitter_, reply_delay_;
  Random random_;
  std::vector<NicState> nics_;
  std::vector<Connection> connections_;
  std::vector<uint32_t> free_connections_;
  std::vector<Scoreboard> boards_;
  std::vector<uint32_t> free_boards_;
  Pool<Message> messages_;
  Pool<Alarm> alarms_;
  Paths paths_;
  std::optional<Admission> admission_;
  uint64_t opened_ = 0;
  EndpointTotals totals_;
};

}  // namespace megascale::sim
