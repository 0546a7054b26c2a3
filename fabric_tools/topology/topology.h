// One document says what a cluster is made of: hosts, their NICs, rails, ToR sets, pods, switches and links.
// The simulator, the placer and the checks read the same one.
//
// A NIC is what traffic starts from and ends at; hosts group NICs (what stays inside a host does not touch
// the network). Switches stand in tiers, 0 being the ToRs. Every link is full duplex.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cc/units.h"

namespace megascale {

inline constexpr uint32_t kNone = UINT32_MAX;

struct Host {
  std::string name;
  uint32_t first_nic = 0, nics = 0;  // in Topology::nics
};

struct Nic {
  uint32_t host = kNone;
  uint32_t rail = 0;      // NICs of one rail hang on the same ToR of their set
  uint32_t link = kNone;  // to its ToR
};

struct Switch {
  std::string name;
  uint32_t tier = 0;
  uint32_t set = kNone;  // ToRs: the set (64 servers under 8 ToRs, in MegaScale) that it belongs to
  uint32_t pod = kNone;  // kNone above the pods
};

// An end of a link: a NIC or a switch.
struct End {
  enum class Kind : uint8_t { kNic, kSwitch } kind = Kind::kSwitch;
  uint32_t index = 0;
  bool operator==(const End&) const = default;
};

struct Link {
  End low, high;  // `low` is the one nearer to the hosts
  Rate rate;
  Duration delay{0};
};

struct Topology {
  std::string name;
  std::vector<Host> hosts;
  std::vector<Nic> nics;
  std::vector<Switch> switches;
  std::vector<Link> links;
  uint32_t rails = 1, sets = 0, pods = 0, tiers = 0;
  bool rails_meet = true;          // false: there is no path between rails but through a host (rail-only)
  std::vector<std::string> notes;  // what had to be assumed or looks odd; for people

  const Switch& tor_of(uint32_t nic) const { return switches[links[nics[nic].link].high.index]; }
};

// HOST/RAIL, as documents and faults call it.
std::string nic_name(const Topology&, uint32_t nic);
std::string name_of(const Topology&, const End&);
std::string printable(std::string text);  // with `?' for what is no ASCII that prints

std::string tier_name(uint32_t tier, size_t tiers);  // tor, agg or spine, core; above them tier3 and so on

std::vector<uint32_t> all_hosts(const Topology&);
// In the order of the names. Throws std::invalid_argument with the one that the topology does not have.
std::vector<uint32_t> hosts_named(const Topology&, const std::vector<std::string>& names);

// The ToR set on which most of a host's NICs hang.
uint32_t set_of_host(const Topology&, uint32_t host);
uint32_t most_frequent(std::vector<uint32_t> values);  // of equals the least; kNone of none

}  // namespace megascale
