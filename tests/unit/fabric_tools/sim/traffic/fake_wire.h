// A wire of a fixed delay for tests of traffic: it checks that connections are used while they are open,
// keeps their order, and writes down every message.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "fabric_tools/sim/traffic/workload.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

// Hosts with a NIC on each rail, a ToR for each rail, a spine above them; 100 Gb/s.
inline Topology small_topology(uint32_t hosts, uint32_t rails) {
  Topology t;
  t.name = "small", t.rails = rails, t.sets = 1, t.pods = 1, t.tiers = 2;
  for (uint32_t rail = 0; rail < rails; ++rail) t.switches.push_back({"tor" + std::to_string(rail), 0, 0, 0});
  t.switches.push_back({"spine", 1, kNone, kNone});
  for (uint32_t host = 0; host < hosts; ++host) {
    t.hosts.push_back({"host" + std::to_string(host), host * rails, rails});
    for (uint32_t rail = 0; rail < rails; ++rail) {
      t.nics.push_back({host, rail, static_cast<uint32_t>(t.links.size())});
      t.links.push_back(
          {{End::Kind::kNic, host * rails + rail}, {End::Kind::kSwitch, rail}, Rate::gigabits(100), 1us});
    }
  }
  for (uint32_t rail = 0; rail < rails; ++rail)
    t.links.push_back({{End::Kind::kSwitch, rail}, {End::Kind::kSwitch, rails}, Rate::gigabits(400), 1us});
  return t;
}

struct Sent {
  uint32_t source, destination;
  Bytes bytes;
  Time posted, at;
  auto pair() const { return std::pair(source, destination); }
};

class FakeWire : public Wire {
 public:
  explicit FakeWire(Duration delay = 10us) : delay_(delay) {}

  ConnectionId connect(uint32_t source, uint32_t destination) override {
    EXPECT_NE(source, destination);
    const auto id = static_cast<ConnectionId>(connections_.size());
    connections_.push_back({source, destination});
    most_open = std::max(most_open, ++open);
    return id;
  }
  void post(ConnectionId id, Bytes bytes, uint64_t tag, Time at) override {
    Connection& c = connections_.at(id);
    EXPECT_TRUE(c.open);
    const Time posted = std::max(at, now);
    c.last = std::max(c.last, posted + delay_);
    ++c.outstanding;
    events_.push({c.last, order_++, tag, id, false, posted, bytes});
  }
  void close(ConnectionId id) override {
    EXPECT_TRUE(connections_.at(id).open);
    EXPECT_EQ(connections_.at(id).outstanding, 0u);
    connections_.at(id).open = false;
    --open;
  }
  void wake(Time at, uint64_t tag) override {
    events_.push({std::max(at, now), order_++, tag, 0, true, now, 0});
  }

  // Until the traffic says that it is finished; fails when it waits for ever, or goes on for ever.
  void run(Workload& traffic) {
    traffic.begin(*this);
    for (int budget = 3'000'000; !traffic.finished(); --budget) {
      ASSERT_GT(budget, 0) << "it does not end";
      ASSERT_FALSE(events_.empty()) << "it waits for nothing";
      const Event event = events_.top();
      events_.pop();
      now = event.at;
      if (event.wake) {
        traffic.woken(*this, event.tag, now);
        continue;
      }
      Connection& c = connections_.at(event.connection);
      --c.outstanding;
      log.push_back({c.source, c.destination, event.bytes, event.posted, now});
      traffic.delivered(*this, {event.connection, event.tag, now});
    }
    EXPECT_TRUE(std::none_of(connections_.begin(), connections_.end(),
                             [](const Connection& c) { return c.outstanding > 0; }));
    EXPECT_LE(most_open, traffic.connections());
    EXPECT_DOUBLE_EQ(traffic.progress(), 1);
  }

  std::map<std::pair<uint32_t, uint32_t>, Bytes> bytes_of_pairs() const {
    std::map<std::pair<uint32_t, uint32_t>, Bytes> sums;
    for (const Sent& sent : log) sums[sent.pair()] += sent.bytes;
    return sums;
  }

  std::vector<Sent> log;  // in the order of delivery
  uint64_t open = 0, most_open = 0;
  Time now{};

 private:
  struct Connection {
    uint32_t source, destination;
    bool open = true;
    Time last{};
    uint32_t outstanding = 0;
  };
  struct Event {
    Time at;
    uint64_t order, tag;
    ConnectionId connection;
    bool wake;
    Time posted;
    Bytes bytes;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  Duration delay_;
  std::vector<Connection> connections_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
};

}  // namespace megascale::sim
