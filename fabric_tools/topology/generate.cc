#include "fabric_tools/topology/generate.h"

#include <fmt/format.h>

#include <stdexcept>

namespace megascale {
namespace {

[[noreturn]] void fail(const std::string& why) { throw std::invalid_argument(why); }

// What has been built of one group: its switches that have cables going up, in order of planes.
using Group = std::vector<uint32_t>;

class Clos {
 public:
  explicit Clos(const ClosShape& shape) : shape_(shape) {}

  Topology build() {
    check();
    t_.name = shape_.name;
    t_.rails = shape_.nics;
    t_.rails_meet = shape_.rails_meet;
    t_.tiers = static_cast<uint32_t>(shape_.tiers.size());
    std::vector<Group> groups = sets();
    for (uint32_t tier = 1; tier < t_.tiers; ++tier) groups = join(tier, groups);
    return std::move(t_);
  }

 private:
  const TierShape& tier(uint32_t i) const { return shape_.tiers[i]; }
  static std::string called(const TierShape& s) { return fmt::format("tier `{}`", s.name); }

  void check() const {
    if (shape_.tiers.empty()) fail("a Clos needs at least one tier of switches");
    double parts = shape_.hosts, switches = 0;  // how many there are to be, before anything is made
    double links = parts * shape_.nics;
    for (uint32_t i = 0; i < shape_.tiers.size(); ++i) {
      const bool top = i + 1 == shape_.tiers.size();
      if (top && tier(i).up != 0)
        fail(fmt::format("{} is the top one: no cables go up from it, set up = 0", called(tier(i))));
      if (!top && tier(i).up == 0)
        fail(fmt::format("{} needs `up`: there is a tier above it", called(tier(i))));
      const uint32_t split_of_child = i == 0 ? 1 : cables_below(i);
      if (split_of_child % spread(i) != 0)
        fail(fmt::format("{}: {} cables from each switch below cannot be spread evenly over {} switches",
                         called(tier(i)), split_of_child, spread(i)));
      const double here = i == 0 ? parts * shape_.nics / std::max(1u, per_group(0))
                                 : switches * spread(i) / std::max<double>(1, units_per_group(i, switches));
      links += here * tier(i).up;
      switches = here;
      parts += here;
    }
    const double bytes = parts * 150 + links * (sizeof(Link) + sizeof(Nic));
    if (bytes > kMostTopologyBytes)
      fail(
          fmt::format("{:.3g} hosts and switches with {:.3g} links would take about {:.0f} GB of memory; "
                      "at most {:.0f} GB are allowed",
                      parts, links, bytes / 1e9, kMostTopologyBytes / 1e9));
  }

  uint32_t per_group(uint32_t i) const {
    return i == 0 && tier(0).groups == 0 ? shape_.hosts : tier(i).groups;
  }
  uint32_t cables_below(uint32_t i) const { return tier(i - 1).up; }
  uint32_t spread(uint32_t i) const {
    return i == 0 ? 1 : tier(i).switches == 0 ? cables_below(i) : tier(i).switches;
  }
  // Switches below that share the switches of a plane; about, for the estimate.
  double units_per_group(uint32_t i, double switches_below) const {
    if (tier(i).groups == 0) return switches_below;
    const double groups = tier(i).groups;
    return i == 1 && shape_.rails_meet ? groups * shape_.nics : groups;
  }

  uint32_t add_switch(uint32_t at, std::string name, uint32_t set, uint32_t pod) {
    t_.switches.push_back({std::move(name), at, set, pod});
    return static_cast<uint32_t>(t_.switches.size() - 1);
  }

  void check_ports(uint32_t i, uint64_t cables_down) const {
    const TierShape& s = tier(i);
    const uint64_t ports = (cables_down + s.split - 1) / s.split + s.up;
    if (ports > s.ports)
      fail(fmt::format("{}: {} cables down ({} to a port) and {} up need {} ports of a switch, which has {}",
                       called(s), cables_down, s.split, s.up, ports, s.ports));
  }

  // Hosts, and a set of ToRs for each `groups` of them.
  std::vector<Group> sets() {
    const uint32_t per_set = per_group(0);
    if (shape_.hosts == 0 || shape_.nics == 0) fail("a fabric needs at least one host with one NIC");
    if (shape_.hosts % per_set != 0)
      fail(fmt::format("{} hosts are no multiple of the {} of a ToR set: the last set would be unequal",
                       shape_.hosts, per_set));
    check_ports(0, per_set);
    t_.sets = shape_.hosts / per_set;
    const int digits = static_cast<int>(std::to_string(shape_.hosts).size());
    std::vector<Group> groups;
    for (uint32_t set = 0; set < t_.sets; ++set) {
      Group tors;
      for (uint32_t rail = 0; rail < shape_.nics; ++rail) {
        std::string name = shape_.nics == 1 ? fmt::format("{}-{}", tier(0).name, set)
                                            : fmt::format("{}-{}-{}", tier(0).name, set, rail);
        tors.push_back(add_switch(0, std::move(name), set, kNone));
      }
      for (uint32_t i = 0; i < per_set; ++i) {
        add_host(fmt::format("{}-{:0{}}", shape_.host_prefix, t_.hosts.size() + 1, digits), tors);
      }
      groups.push_back(std::move(tors));
    }
    return groups;
  }

  void add_host(std::string name, const Group& tors) {
    const auto host = static_cast<uint32_t>(t_.hosts.size());
    t_.hosts.push_back({std::move(name), static_cast<uint32_t>(t_.nics.size()), shape_.nics});
    for (uint32_t rail = 0; rail < shape_.nics; ++rail) {
      const auto nic = static_cast<uint32_t>(t_.nics.size());
      t_.nics.push_back({host, rail, static_cast<uint32_t>(t_.links.size())});
      t_.links.push_back(
          {{End::Kind::kNic, nic}, {End::Kind::kSwitch, tors[rail]}, tier(0).rate, tier(0).delay});
    }
  }

  // Makes the switches of a tier and joins `below` in them, some groups at a time.
  std::vector<Group> join(uint32_t at, std::vector<Group> below) {
    const TierShape& s = tier(at);
    const auto all = static_cast<uint32_t>(below.size());
    const uint32_t size = s.groups == 0 ? all : s.groups;
    if (all % size != 0)
      fail(fmt::format("{}: {} groups below are no multiple of {}: the last group would be unequal",
                       called(s), all, size));
    if (at + 1 == t_.tiers && size != all)
      fail(
          fmt::format("{} is the top one, but joins {} of the {} groups below: the others could not be "
                      "reached",
                      called(s), size, all));
    std::vector<Group> groups;
    for (uint32_t first = 0; first < all; first += size) {
      const auto index = static_cast<uint32_t>(groups.size());
      std::vector<Group> members(below.begin() + first, below.begin() + first + size);
      if (at == 1) {
        for (const Group& set : members) {
          for (const uint32_t tor : set) t_.switches[tor].pod = index;
        }
        if (shape_.rails_meet) members = each_alone(members);
      }
      groups.push_back(join_group(at, index, members));
    }
    if (at == 1) t_.pods = static_cast<uint32_t>(groups.size());
    return groups;
  }

  static std::vector<Group> each_alone(const std::vector<Group>& groups) {
    std::vector<Group> alone;
    for (const Group& group : groups) {
      for (const uint32_t member : group) alone.push_back({member});
    }
    return alone;
  }

  Group join_group(uint32_t at, uint32_t index, const std::vector<Group>& members) {
    const TierShape& s = tier(at);
    const uint32_t bundle = cables_below(at) / spread(at);
    check_ports(at, uint64_t{members.size()} * bundle);
    const bool top = at + 1 == t_.tiers;
    Group made;
    for (uint32_t plane = 0; plane < members[0].size(); ++plane) {
      for (uint32_t i = 0; i < spread(at); ++i) {
        std::string name = top ? fmt::format("{}-{}", s.name, made.size())
                               : fmt::format("{}-{}-{}", s.name, index, made.size());
        made.push_back(add_switch(at, std::move(name), kNone, at == 1 ? index : kNone));
        for (const Group& member : members) {
          for (uint32_t cable = 0; cable < bundle; ++cable) {
            t_.links.push_back(
                {{End::Kind::kSwitch, member[plane]}, {End::Kind::kSwitch, made.back()}, s.rate, s.delay});
          }
        }
      }
    }
    return made;
  }

  const ClosShape& shape_;
  Topology t_;
};

}  // namespace

Topology build_clos(const ClosShape& shape) { return Clos(shape).build(); }

ClosShape fat_tree(uint32_t k, Rate rate, Duration delay) {
  if (k < 2 || k % 2 != 0) fail(fmt::format("a fat tree's k must be even and at least 2, not {}", k));
  const uint32_t half = k / 2;
  ClosShape shape{.name = fmt::format("fat-tree-{}", uint64_t{k} * k * k / 4),
                  .hosts = k * half * half,
                  .tiers = {{.name = "tor", .ports = k, .groups = half, .up = half},
                            {.name = "agg", .ports = k, .groups = half, .up = half},
                            {.name = "core", .ports = k}}};
  for (TierShape& tier : shape.tiers) tier.rate = rate, tier.delay = delay;
  return shape;
}

Topology build_dumbbell(const DumbbellShape& shape) {
  if (shape.left == 0 || shape.right == 0) fail("a dumbbell needs hosts on both sides");
  const uint32_t hosts = shape.left + shape.right;
  Topology t{.name = shape.name, .sets = 2, .pods = 1, .tiers = 2};
  t.switches = {{"left", 0, 0, 0}, {"right", 1, 1, 0}};
  const int digits = static_cast<int>(std::to_string(hosts).size());
  for (uint32_t i = 0; i < hosts; ++i) {
    t.hosts.push_back({fmt::format("{}-{:0{}}", shape.host_prefix, i + 1, digits), i, 1});
    t.nics.push_back({i, 0, i});
    t.links.push_back({{End::Kind::kNic, i},
                       {End::Kind::kSwitch, i < shape.left ? 0u : 1u},
                       shape.host_rate,
                       shape.host_delay});
  }
  t.links.push_back({{End::Kind::kSwitch, 0}, {End::Kind::kSwitch, 1}, shape.rate, shape.delay});
  return t;
}

}  // namespace megascale
