#include "fabric_tools/sim/simulation.h"

#include <algorithm>
#include <stdexcept>

#include "fabric_tools/memory.h"
#include "fabric_tools/sim/check.h"
#include "fabric_tools/sim/deliveries.h"
#include "fabric_tools/sim/endpoints.h"
#include "fabric_tools/sim/fabric.h"
#include "fabric_tools/sim/faults.h"
#include "fabric_tools/sim/sampler.h"

namespace megascale::sim {
namespace {

constexpr size_t kSeries = 8;
constexpr uint64_t kLookAround = 4096;        // events between looks at RunState
constexpr uint64_t kLookForMemory = 1 << 20;  // and at what is left
constexpr Bytes kReserve = 64 << 20;

double full_packet_ticks(const Setup& setup) {
  const Topology& t = *setup.topology;
  const Rate rate = t.nics.empty() ? Rate::gigabits(100) : t.links[t.nics[0].link].rate;
  return ticks_per_byte(rate) * static_cast<double>(setup.model.hosts.payload + setup.model.hosts.header);
}

// A few events in each bucket when all ports are busy, and a horizon beyond the delay of any usual link.
EventQueue make_calendar(const Setup& setup) {
  const auto ports = static_cast<double>(2 * setup.topology->links.size());
  const auto width =
      static_cast<Tick>(std::clamp(4 * full_packet_ticks(setup) / std::max(ports, 1.0), 64.0, 16384.0));
  const auto buckets = static_cast<size_t>(std::clamp<Tick>(ticks(8us) / width, 1024, 65536));
  return EventQueue(width, buckets);
}

class Simulation {
 public:
  Simulation(const Setup& setup, Traffic& traffic)
      : setup_(setup),
        traffic_(traffic),
        events_(make_calendar(setup)),
        fabric_(*setup.topology, setup.model, setup.seed, events_, packets_),
        deliveries_(setup.seed),
        endpoints_(setup, events_, packets_, fabric_, traffic, deliveries_),
        faults_(*setup.topology, setup.model, events_, fabric_, endpoints_),
        sampler_(events_, fabric_, setup.sample) {}

  Result run(RunState* state) {
    const Tick limit = ticks(setup_.limit);
    traffic_.begin(endpoints_);
    Event event;
    uint64_t messages = 0;
    bool finished = traffic_.finished();
    while (!finished && events_.pop(event, limit)) {
      fetch_ahead();
      handle(event);
      if (deliveries_.messages() != messages || event.kind() == EventKind::kTraffic) {
        messages = deliveries_.messages();
        finished = traffic_.finished();
      }
      if (events_.popped() % kLookForMemory == 0 && available_memory() < kReserve)
        throw std::runtime_error(
            "the memory is nearly used up: more is under way than was reckoned with; take less load or "
            "larger messages");
      if (state && events_.popped() % kLookAround == 0) {
        state->done.store(traffic_.progress(), std::memory_order_relaxed);
        if (state->stop.load(std::memory_order_relaxed)) break;
      }
    }
    return result(finished);
  }

 private:
  void fetch_ahead();
  void handle(const Event& event);
  Result result(bool finished);
  void add_ports(Result&, Tick ran) const;
  void add_tiers(Result&) const;

  const Setup& setup_;
  Traffic& traffic_;
  EventQueue events_;
  Packets packets_;
  Fabric fabric_;
  Deliveries deliveries_;
  Endpoints endpoints_;
  Faults faults_;
  Sampler sampler_;
  bool deadlock_ = false;
};

// Memory is slower than arithmetic: what the next events need is asked for before it is needed.
void Simulation::fetch_ahead() {
  if (const Event* e = events_.ahead(4)) {
    if (e->kind() == EventKind::kArrive) packets_.fetch(e->index());
    else if (e->kind() == EventKind::kWake) fabric_.fetch(e->index());
  }
  if (const Event* e = events_.ahead(2); e && e->kind() == EventKind::kArrive) {
    fabric_.fetch(packets_[e->index()].port);
  }
  if (const Event* e = events_.ahead(0); e && e->kind() == EventKind::kArrive) {
    const Packet& p = packets_[e->index()];
    if (fabric_.port(p.port).to_nic) endpoints_.fetch(p.connection);
  }
}

void Simulation::handle(const Event& event) {
  const uint32_t index = event.index();
  switch (event.kind()) {
    case EventKind::kArrive:
      if (fabric_.arrive(index)) endpoints_.receive(index);
      return;
    case EventKind::kWake:
      if (!fabric_.woken(index)) return;
      if (const FabricPort& port = fabric_.port(index); port.from_nic) endpoints_.serve(port.owner);
      else fabric_.serve(index);
      return;
    case EventKind::kPause:
      return fabric_.pause(index);
    case EventKind::kResume:
      if (fabric_.resume(index)) endpoints_.serve(fabric_.port(index).owner);
      return;
    case EventKind::kWatchdog:
      return fabric_.watch(index);
    case EventKind::kTick:
      return endpoints_.on_tick(index);
    case EventKind::kTimeout:
      return endpoints_.on_timeout(index);
    case EventKind::kLateReply:
      return endpoints_.on_late_reply(index);
    case EventKind::kReply:
      return endpoints_.on_reply(index);
    case EventKind::kFlush:
      return endpoints_.on_flush(index);
    case EventKind::kNotify:
      return endpoints_.on_notify(index);
    case EventKind::kPost:
      return endpoints_.on_post(index);
    case EventKind::kTraffic:
      return endpoints_.on_traffic(index);
    case EventKind::kFault:
      return faults_.on_event(index);
    case EventKind::kReroute:
      return fabric_.reroute(index);
    case EventKind::kSample:
      return sampler_.on_event();
    case EventKind::kDeadlock:
      deadlock_ |= fabric_.look_for_deadlock();
      return;
  }
}

Result Simulation::result(bool finished) {
  fabric_.settle();
  endpoints_.settle();
  Result r;
  r.finished = finished;
  deliveries_.report(r);
  const FabricTotals& fabric = fabric_.totals();
  const EndpointTotals& ends = endpoints_.totals();
  r.data_packets = ends.data_packets;
  r.retransmitted = ends.retransmitted;
  r.timeouts = ends.timeouts;
  r.cnps = ends.cnps;
  r.marked = fabric.marked;
  r.dropped = fabric.dropped;
  r.pauses = fabric.pauses;
  r.watchdogs = fabric.watchdogs;
  r.last_pause = duration(fabric.last_pause);
  r.events = events_.popped();
  r.deadlock = deadlock_;
  const Tick ran = std::max<Tick>(finished ? ticks(r.completion) : events_.now(), 1);
  add_ports(r, ran);
  add_tiers(r);
  r.series = sampler_.busiest(kSeries);
  r.sample = sampler_.every();
  return r;
}

void Simulation::add_ports(Result& r, Tick ran) const {
  r.ports.reserve(fabric_.ports().size());
  for (uint32_t id = 0; id < fabric_.ports().size(); ++id) {
    const FabricPort& port = fabric_.ports()[id];
    const auto share_of_time = [&](double value) { return value / static_cast<double>(ran); };
    Port p;
    p.link = id / 2;
    p.up = id == up_port(p.link);
    p.utilisation = std::min(1.0, share_of_time(static_cast<double>(port.busy)));
    p.mean_queue = share_of_time(port.queue_area);
    p.packets = port.packets;
    p.paused = duration(port.paused_for);
    r.paused += p.paused;
    r.utilisation_of_busiest = std::max(r.utilisation_of_busiest, p.utilisation);
    r.ports.push_back(p);
  }
}

void Simulation::add_tiers(Result& r) const {
  r.tiers.resize(fabric_.tiers());
  std::vector<uint32_t> count(r.tiers.size());
  for (size_t id = 0; id < r.ports.size(); ++id) {
    const uint8_t tier = fabric_.ports()[id].tier;
    ++count[tier];
    r.tiers[tier].utilisation += r.ports[id].utilisation;
    r.tiers[tier].paused += r.ports[id].paused;
  }
  const std::vector<uint64_t> pauses = fabric_.pauses_of_tiers();
  Histogram all;
  for (uint32_t tier = 0; tier < r.tiers.size(); ++tier) {
    if (count[tier] > 0) r.tiers[tier].utilisation /= count[tier];
    r.tiers[tier].pauses = pauses[tier];
    r.tiers[tier].queue = fabric_.queues(tier).quantiles();
    all.add(fabric_.queues(tier));
  }
  r.queue = all.quantiles();
}

}  // namespace

Result simulate(const Setup& setup, Traffic& traffic, RunState* state) {
  check(setup);
  return Simulation(setup, traffic).run(state);
}

Bytes memory_needed(const Setup& setup, const Traffic& traffic) {
  const Topology& t = *setup.topology;
  const Hosts& hosts = setup.model.hosts;
  constexpr Bytes kController = 512, kScoreboard = 256, kSetSize = 64 << 10;
  const uint64_t connections = traffic.connections();
  const Bytes of_connection = sizeof(Connection) + sizeof(Message) + kController + kScoreboard;
  // Packets: what fits on the wires of a path and in the buffers, both at most.
  double wires = 0, buffers = 0;
  for (const Link& link : t.links) {
    wires += 2 * (link.rate.bytes_per_second() * seconds(link.delay) + static_cast<double>(hosts.payload));
  }
  buffers = static_cast<double>(t.switches.size()) * static_cast<double>(setup.model.switches.buffer) / 4;
  const double packets = (wires + buffers) / static_cast<double>(hosts.payload + hosts.header);
  uint64_t tors = 0;
  for (const Switch& s : t.switches) tors += s.tier == 0;
  const Bytes fixed = 2 * t.links.size() * (sizeof(FabricPort) + sizeof(Port)) +
                      t.switches.size() * tors * sizeof(uint32_t) + t.nics.size() * 256 + kSetSize * 64;
  return fixed + connections * of_connection +
         static_cast<Bytes>(packets * static_cast<double>(sizeof(Packet)));
}

}  // namespace megascale::sim
