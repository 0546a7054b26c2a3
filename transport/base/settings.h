// Everything a user can set, parsed and checked once per process. Declared in settings_table.cc, one row a
// variable (name, type, default, range, sentence), from which `megascale-fabric env` prints the
// documentation.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cc/units.h"

namespace megascale {

struct Settings {
  // The path.
  std::string link = "auto";  // MEGASCALE_LINK: auto | tcp; others are refused by name until they are built
  std::string rails;          // MEGASCALE_RAILS: addresses, comma separated, a rail each; empty: by interface
  std::string interfaces;     // MEGASCALE_INTERFACES, NCCL_SOCKET_IFNAME: prefixes, ^ excludes, = exact
  std::string address_family;  // MEGASCALE_ADDRESS_FAMILY, NCCL_SOCKET_FAMILY: one family only
  bool stripe = false;         // MEGASCALE_STRIPE: home | all
  Bytes chunk = 512 << 10;     // MEGASCALE_CHUNK: the smallest chunk of a striped message

  // Speed.
  using Numbers = std::map<std::string, double>;
  std::string cc = "auto";  // MEGASCALE_CC: auto (tcp: the kernel's) | fixed; others are refused by name
  Numbers cc_parameters;    // the file's [cc] table; auto has none, and says so when there are some
  Rate rate_limit = Rate::unlimited();  // MEGASCALE_RATE_LIMIT: of one connection on one rail, "10G"
  std::string tcp_algorithm = "auto";   // MEGASCALE_TCP_ALGORITHM: auto | a name the kernel allows
  Bytes tcp_send_buffer = 0;            // MEGASCALE_TCP_SEND_BUFFER; 0: ours to choose
  Bytes tcp_receive_buffer = 0;         // MEGASCALE_TCP_RECEIVE_BUFFER; 0: ours to choose

  // Trust.
  std::string secret;       // MEGASCALE_SECRET, or what MEGASCALE_SECRET_FILE holds; never printed
  std::string secret_file;  // MEGASCALE_SECRET_FILE
  // A secret was asked for and could not be had. Do not start then, rather than trust everybody.
  bool secret_unreadable = false;

  // Patience.
  Duration flap_timeout = 120s;    // MEGASCALE_FLAP_TIMEOUT: how long a connection lives on without any link
  Duration flap_detect = 250ms;    // MEGASCALE_FLAP_DETECT: silence with data owed that counts as a flap
  Duration connect_timeout = 60s;  // MEGASCALE_CONNECT_TIMEOUT: for the first connection to a peer
  Duration return_hold = 2s;       // MEGASCALE_RETURN_HOLD: how long a home rail is well before the return

  // Reports.
  std::string events;        // MEGASCALE_EVENTS: file for events, JSON lines; %p the process id, %r the rank
  bool summary = false;      // MEGASCALE_SUMMARY: a compact table on standard error at exit
  std::string log = "info";  // MEGASCALE_LOG: warn | info | trace

  std::string config;  // MEGASCALE_CONFIG: a TOML file that sets any of these; the environment wins

  // The launch contract of our own programs, not needed under NCCL.
  int rank = -1;           // MEGASCALE_RANK; -1: not said
  int ranks = 0;           // MEGASCALE_RANKS; 0: not said
  int local_rank = -1;     // MEGASCALE_LOCAL_RANK; -1: not said
  std::string rendezvous;  // MEGASCALE_RENDEZVOUS: host:port where rank 0 listens
};

// Reads the environment and the file that MEGASCALE_CONFIG names; the environment wins. What is unknown,
// malformed or out of range is named in `complaints` (one sentence each, which a caller shows once) and its
// default is used.
Settings load_settings(std::vector<std::string>* complaints);
// The same from "NAME=value" texts instead of the process's environment.
Settings load_settings(std::span<const std::string> environment, std::vector<std::string>* complaints);

// The documentation of one variable.
struct SettingDoc {
  std::string name;      // MEGASCALE_...
  std::string also;      // a familiar name that is honoured when `name` is not set, or nothing
  std::string type;      // text, choice, duration, size, rate, number, switch, secret
  std::string fallback;  // the default, as one would write it
  std::string accepted;  // the range, or the words
  std::string sentence;
  std::string key;  // in the [megascale] table of the file; empty: only in the environment
};
std::span<const SettingDoc> setting_docs();

}  // namespace megascale
