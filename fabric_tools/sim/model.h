// What can be set about the simulated network: switches, hosts, losses and faults. Each field is one number a
// user may change in a scenario file; the defaults are those of the comparison table
// (docs/congestion-control.md).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cc/units.h"

namespace megascale::sim {

// WRED on the egress queue: nothing is marked up to kmin, all above kmax, in between the probability grows to
// pmax. The thresholds hold for a port of the rate `at` and scale with the rate of the port.
struct Ecn {
  bool on = true;
  Bytes kmin = 100'000, kmax = 400'000;
  double pmax = 0.2;
  Rate at = Rate::gigabits(100);
  bool on_dequeue = true;  // mark by the queue that is left behind; else by the queue that is met
};

// Priority flow control (IEEE 802.1Qbb). A port whose packets take more than alpha x the free shared buffer
// pauses its neighbour, and lets it go below the threshold minus `hysteresis`.
struct Pfc {
  bool on = true;
  double alpha = 1.0 / 8;
  Bytes headroom = 0;  // for each port; 0: as headroom.h calculates it; less than that is refused
  Bytes hysteresis = 8'320;
  Duration watchdog{0};  // a queue paused for longer is drained by dropping until it is let go; 0: never
  bool unsafe_headroom = false;  // take `headroom` as given (to show what goes wrong)
};

enum class Balance { kEcmp, kFlowlet, kSpray, kPlb };

struct Switches {
  Bytes buffer = 32'000'000;  // shared by all ports
  double alpha_lossy = 1.0;   // without PFC an egress queue drops above alpha x the free buffer
  Duration latency{0};
  Ecn ecn;
  Pfc pfc;
  Balance balance = Balance::kEcmp;
  Duration flowlet_gap = 50us;
  Duration reroute =
      100us;  // from a link's end until hashes leave it out, and from its return until they use it
  bool telemetry = true;  // packets of controllers that want it are stamped at each hop
};

enum class Recovery { kGoBackN, kSelective };

struct Hosts {
  Bytes payload = 4096, header = 64;  // of a full packet; its wire size is the sum
  Bytes ack = 64;               // wire size of acknowledgements and CNPs; they go in a class above the data's
  uint32_t ack_every = 1;       // packets
  Duration delay{0};            // from the arrival of a packet to its acknowledgement
  Duration jitter{0};           // mean of an exponential delay added to each acknowledgement
  bool jitter_in_order = true;  // one that is late holds up those behind it; else they pass it
  bool remote_hold = false;     // do acknowledgements tell the receiver's delay?
  bool cnp = false;             // congestion is told by CNPs, not by marked acknowledgements
  Duration cnp_interval = 4us;  // the least time between two CNPs of a connection
  Duration cnp_delay{0};        // from the marked packet to the CNP
  Recovery recovery = Recovery::kSelective;
  Duration least_timeout = 100us;         // retransmission: max of this and 4 smoothed RTTs, doubling
  std::optional<Duration> fixed_timeout;  // as a NIC's static 4.096 us x 2^n
  Duration rtt_bias{0};  // added to the base RTT that controllers are told (to see what a wrong belief does)
  Bytes admission =
      0;  // receiver-driven admission: bytes of messages granted at once to all senders of a NIC; 0: off
  uint32_t plb_rounds = 12, plb_idle_rounds = 3;  // PLB's Linux defaults: congested rounds before a new path
};

// One without payload is one packet, too.
constexpr uint64_t packets_of(const Hosts& hosts, Bytes message) {
  return message == 0 ? 1 : (message + hosts.payload - 1) / hosts.payload;
}

// Something that happens to a link: between the named ends, or to a NIC's link when `high` is empty.
struct Fault {
  Duration at{0};
  std::optional<Duration> lasts;  // nothing: until the end
  std::string low, high;          // names: a host's NIC is HOST/RAIL
  double rate = 0;                // share of the link's rate that is left; 0: down
};

struct Model {
  Switches switches;
  Hosts hosts;
  std::vector<Fault> faults;
};

}  // namespace megascale::sim
