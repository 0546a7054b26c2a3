// Traffic from a file of JSON lines, one message a line:
//
//   {"id": "b", "source": "host0/1", "destination": 12, "bytes": 100000, "after": ["a"], "delay": "5us"}
//
// `id`: a number or a text. `source`, `destination`: a NIC, by its number or as HOST/RAIL. `bytes`: a number
// or a text as "100KB". `time`: not before it, counted from the start of the run; `after`: not before these
// were delivered; `delay`: so long after that. Times are seconds, or texts as "5us". `time`, `after` and
// `delay` may be left out. A pair of NICs has one connection.
#pragma once
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "fabric_tools/sim/traffic/workload.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

class Trace : public Workload {
 public:
  // Throws std::invalid_argument with file and line: what is malformed, an id that nobody has or two have, a
  // NIC that the topology does not have, messages that wait for each other in a circle.
  static std::unique_ptr<Trace> read(const std::string& path, const Topology&);
  static std::unique_ptr<Trace> read(std::istream&, const std::string& source, const Topology&);

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  void woken(Wire&, uint64_t tag, Time now) override;
  bool finished() const override { return done_ == count(); }
  double progress() const override { return static_cast<double>(done_) / static_cast<double>(count()); }
  uint64_t connections() const override { return pairs_.size(); }
  double messages() const override { return static_cast<double>(count()); }

 private:
  friend class TraceReader;
  struct Message {
    Bytes bytes = 0;
    Duration time{0}, delay{0};
    uint32_t pair = 0;
    uint32_t waits_for = 0;       // messages that are not delivered yet
    uint32_t first_follower = 0;  // in followers_; the next message's is the end
  };
  struct Pair {
    uint32_t source, destination;
    bool connected = false;
    ConnectionId connection = 0;
  };

  size_t count() const { return messages_.size() - 1; }
  void start(Wire&, uint32_t message, Time now);
  void post(Wire&, uint32_t message);

  std::vector<Message> messages_;  // and one behind the last, where its followers end
  std::vector<uint32_t> followers_;
  std::vector<Pair> pairs_;
  uint64_t done_ = 0;
};

}  // namespace megascale::sim
