#include "fabric_tools/sim/traffic/ideal.h"

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <vector>

namespace megascale::sim {
namespace {

class IdealWire : public Wire {
 public:
  IdealWire(const Topology& topology, const Alone& alone)
      : topology_(topology), alone_(alone), nics_(topology.nics.size()) {}

  ConnectionId connect(uint32_t source, uint32_t destination) override {
    const Connection fresh{source, destination, Time{}, 0, Duration(0)};
    if (free_.empty()) {
      connections_.push_back(fresh);
      return static_cast<ConnectionId>(connections_.size() - 1);
    }
    const ConnectionId id = free_.back();
    free_.pop_back();
    connections_[id] = fresh;
    return id;
  }

  void post(ConnectionId id, Bytes bytes, uint64_t tag, Time at) override {
    Connection& c = connections_[id];
    const Bytes wire = wire_bytes(alone_.hosts, bytes);
    if (c.last_bytes != bytes || c.last_time == Duration(0)) {
      c.last_bytes = bytes;
      c.last_time = alone_.message(c.source, c.destination, bytes);
    }
    const Rate rate = std::min(rate_of(c.source), rate_of(c.destination));
    const Time start = std::max({at, now_, c.free});
    c.free = start + rate.time_for(wire);
    events_.push({start + c.last_time, order_++, tag, id, false});
    // Times are cut to nanoseconds; a bound may only be too small.
    const Duration latency = std::max(c.last_time - rate.time_for(wire) - 1ns, Duration(0));
    count(nics_[c.source].out, wire, latency, std::max(at, now_));
    count(nics_[c.destination].in, wire, latency, std::max(at, now_));
  }

  void close(ConnectionId id) override { free_.push_back(id); }
  void wake(Time at, uint64_t tag) override { events_.push({std::max(at, now_), order_++, tag, 0, true}); }

  Duration run(Workload& traffic, const std::atomic<bool>* stop) {
    traffic.begin(*this);
    Time last{};
    while (!traffic.finished() && !(stop && *stop)) {
      if (events_.empty()) throw std::runtime_error("the traffic waits for something that nobody sends");
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      if (event.wake) {
        traffic.woken(*this, event.tag, event.at);
      } else {
        last = event.at;
        traffic.delivered(*this, {event.connection, event.tag, event.at});
      }
    }
    return std::max(last - Time{}, busiest());
  }

 private:
  struct Connection {
    uint32_t source, destination;
    Time free;  // when its last message has left the sender
    Bytes last_bytes;
    Duration last_time;
  };
  struct Load {  // of a NIC, in one direction
    double bytes = 0;
    Duration least_latency = Duration::max();
    Time first = kNever;
  };
  struct Nic {
    Load in, out;
  };
  struct Event {
    Time at;
    uint64_t order, tag;
    ConnectionId connection;
    bool wake;
    bool operator<(const Event& other) const {  // the top of the queue is the earliest
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  Rate rate_of(uint32_t nic) const { return topology_.links[topology_.nics[nic].link].rate; }

  static void count(Load& load, Bytes wire, Duration latency, Time at) {
    load.bytes += static_cast<double>(wire);
    load.least_latency = std::min(load.least_latency, latency);
    load.first = std::min(load.first, at);
  }

  Duration busiest() const {
    double longest = 0;
    for (uint32_t nic = 0; nic < nics_.size(); ++nic) {
      for (const Load* load : {&nics_[nic].in, &nics_[nic].out}) {
        if (load->bytes == 0) continue;
        longest = std::max(longest, seconds(load->first - Time{}) + seconds(load->least_latency) +
                                        load->bytes * 8 / rate_of(nic).bits_per_second);
      }
    }
    return from_seconds(longest);
  }

  const Topology& topology_;
  const Alone& alone_;
  std::vector<Nic> nics_;
  std::vector<Connection> connections_;
  std::vector<ConnectionId> free_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  Time now_{};
};

}  // namespace

Bytes wire_bytes(const Hosts& hosts, Bytes message) {
  return message + packets_of(hosts, message) * hosts.header;
}

Duration ideal_completion(const Topology& topology, const Alone& alone, Workload& traffic,
                          const std::atomic<bool>* stop) {
  return IdealWire(topology, alone).run(traffic, stop);
}

}  // namespace megascale::sim
