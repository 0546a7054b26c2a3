// A deterministic packet-level simulation: one topology, one model, one controller for all connections, one
// traffic. The same seed gives the same result, to the bit.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "cc/registry.h"
#include "fabric_tools/sim/model.h"
#include "fabric_tools/sim/traffic.h"
#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

struct Setup {
  const Topology* topology = nullptr;
  Model model;
  std::string algorithm = "fixed";
  Parameters parameters;
  Recipe controllers;  // when there is one, instead of `algorithm`: controllers of one's own
  uint64_t seed = 1;
  Duration limit = 10s;  // of simulated time: a run that is not over by then is told to be unfinished
  Duration sample{0};    // queues and rates of the busiest ports over time, each `sample`; 0: none
};

struct Quantiles {
  double mean = 0, p50 = 0, p99 = 0, max = 0;
};

struct Tier {  // ports that send down from or up to tier i; tier 0 holds the NICs' and the ToRs' ports
  uint64_t pauses = 0;     // sent by switches of the tier
  Duration paused{0};      // by all its egress ports together
  double utilisation = 0;  // mean over its ports, while traffic ran
  Quantiles queue;         // bytes that data packets met at these egress ports
};

struct Port {  // one direction of a link
  uint32_t link = 0;
  bool up = false;
  double utilisation = 0, mean_queue = 0;  // over time
  uint64_t packets = 0;
  Duration paused{0};
};

struct Series {
  uint32_t port = 0;               // in Result::ports
  std::vector<float> queue, rate;  // bytes, bit/s, one each Result::sample
};

struct Result {
  bool finished = false;
  // Of the traffic: from 0 to its last delivery, or to the last so far if it is not finished.
  Duration completion{0};
  uint64_t messages = 0;
  Bytes delivered = 0;           // payload
  Quantiles slowdown;            // over the time that the message would take alone
  std::vector<float> slowdowns;  // of every message, or of a fair sample of 100,000
  double jain = 0;               // of the throughput of the connections while they had something to send
  Quantiles queue;               // bytes that data packets met at egress ports of switches
  uint64_t data_packets = 0, marked = 0, dropped = 0, retransmitted = 0, timeouts = 0, cnps = 0, events = 0;
  uint64_t pauses = 0;
  Duration paused{0}, last_pause{0};  // last_pause: when the last pause was sent
  uint64_t watchdogs = 0;
  bool deadlock = false;  // a cycle of paused queues was found
  std::vector<Tier> tiers;
  std::vector<Port> ports;
  std::vector<Series> series;
  Duration sample{0};  // between two values of a series
  double utilisation_of_busiest = 0;
  uint64_t digest = 0;  // of every delivery, for comparing two runs
};

struct RunState {
  std::atomic<double> done{0};    // share
  std::atomic<bool> stop{false};  // set it, and run() returns what it has
};

// Throws std::invalid_argument for what check() refuses and for a pair that has no route, std::runtime_error
// when the memory is nearly used up.
Result simulate(const Setup&, Traffic&, RunState* = nullptr);

// An estimate, before anything is allocated.
Bytes memory_needed(const Setup&, const Traffic&);

}  // namespace megascale::sim
