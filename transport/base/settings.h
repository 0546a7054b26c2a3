// Everything a user can set, parsed and checked once per process. Declared in settings.cc, one row a variable
// (name, type, default, range, sentence), from which `megascale-fabric env` prints the documentation.
#pragma once
#include <string>
#include <vector>

#include "cc/units.h"

namespace megascale {

struct Settings {
  std::string link = "auto";        // MEGASCALE_LINK: auto | tcp (verbs, udp, dpdk are refused by name until they are built)
  std::string cc = "auto";          // MEGASCALE_CC: auto (tcp: the kernel's) | off | fixed
  std::string config;               // MEGASCALE_CONFIG: a TOML file that sets any of these (environment wins)
  std::string rails;                // MEGASCALE_RAILS: addresses, comma separated, one rail each, in order; empty: by interface
  std::string interfaces;           // NCCL_SOCKET_IFNAME syntax: prefixes, ^ excludes, = exact
  std::string address_family;       // NCCL_SOCKET_FAMILY: AF_INET | AF_INET6 | empty: both
  std::string secret;               // MEGASCALE_SECRET, never printed
  std::string secret_file;          // MEGASCALE_SECRET_FILE
  Duration flap_timeout = 120s;     // MEGASCALE_FLAP_TIMEOUT: how long a connection without any link is kept trying
  Duration flap_detect = 250ms;     // MEGASCALE_FLAP_DETECT: silence with data owed that counts as a flap
  Duration connect_timeout = 60s;   // MEGASCALE_CONNECT_TIMEOUT: for the first connection to a peer
  Duration return_hold = 2s;        // MEGASCALE_RETURN_HOLD: how long a home rail must be well before traffic returns
  std::string tcp_algorithm = "auto";  // MEGASCALE_TCP_ALGORITHM: auto | a name the kernel allows
  Bytes tcp_send_buffer = 0;        // MEGASCALE_TCP_SEND_BUFFER: 0: ours to choose
  Bytes tcp_receive_buffer = 0;     // MEGASCALE_TCP_RECEIVE_BUFFER
  Rate rate_limit = Rate::unlimited();  // MEGASCALE_RATE_LIMIT: bits per second of one connection on one rail, "10G"
  bool stripe = false;              // MEGASCALE_STRIPE: home | all
  Bytes chunk = 512 << 10;          // MEGASCALE_CHUNK: smallest chunk of a striped message
  std::string events;               // MEGASCALE_EVENTS: file for events, JSON lines; %p is the process id, %r the rank
  bool summary = false;             // MEGASCALE_SUMMARY: a compact table on stderr at exit
  std::string log = "info";         // MEGASCALE_LOG: warn | info | trace
};

}  // namespace megascale
