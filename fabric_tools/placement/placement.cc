#include "fabric_tools/placement/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "fabric_tools/topology/reach.h"

namespace megascale {
namespace {

// Checks what holds of every placement, and says how many hosts are needed.
uint32_t hosts_needed(const Topology& t, const std::vector<uint32_t>& hosts, uint32_t gpus,
                      const Parallel& p) {
  if (gpus == 0) refuse("a host needs at least one GPU");
  if (p.tensor == 0 || p.pipeline == 0 || p.data == 0)
    refuse("tensor, pipeline and data parallelism must be at least 1");
  if (p.tensor > gpus || gpus % p.tensor != 0)
    refuse(fmt::format("{} tensor-parallel ranks do not fill hosts of {} GPUs: a group would leave its host",
                       p.tensor, gpus));
  if (p.ranks() % gpus != 0)
    refuse(fmt::format("{} ranks ({} x {} x {}) are no multiple of the {} GPUs of a host", p.ranks(),
                       p.tensor, p.pipeline, p.data, gpus));
  if (p.ranks() / gpus > hosts.size())
    refuse(fmt::format("{} ranks ({} x {} x {}) need {} hosts with {} GPUs, and there are {}", p.ranks(),
                       p.tensor, p.pipeline, p.data, p.ranks() / gpus, gpus, hosts.size()));
  std::vector<bool> seen(t.hosts.size(), false);
  for (const uint32_t host : hosts) {
    if (seen[host]) refuse(fmt::format("host {} is in the list twice", t.hosts[host].name));
    seen[host] = true;
    if (t.hosts[host].nics != t.hosts[hosts[0]].nics)
      refuse(fmt::format("host {} has {} NICs and host {} has {}: their rails do not match",
                         t.hosts[host].name, t.hosts[host].nics, t.hosts[hosts[0]].name,
                         t.hosts[hosts[0]].nics));
  }
  return static_cast<uint32_t>(p.ranks() / gpus);
}

// Hosts that are taken together, for the data-parallel ranks of a stage.
uint32_t hosts_per_block(const Parallel& p, uint32_t gpus, uint32_t hosts) {
  const uint64_t ranks = uint64_t{p.tensor} * p.data;
  if (ranks % gpus == 0) return static_cast<uint32_t>(ranks / gpus);
  return gpus % ranks == 0 ? 1 : hosts;  // several stages in a host; or stages that do not end with a host
}

// Hands out hosts, block by block. A group of level 0 is a ToR set; one of level i all that tier i joins.
class Packer {
 public:
  Packer(const Topology& t, const std::vector<uint32_t>& hosts) {
    const Reach reach(t);
    levels_ = std::max(1u, t.tiers);
    used_.assign(levels_, std::vector<uint32_t>(group_count(t), 0));
    free_ = used_;
    groups_.resize(t.hosts.size());
    for (const uint32_t host : hosts) {
      const uint32_t tor = t.links[t.nics[t.hosts[host].first_nic].link].high.index;
      groups_[host].push_back(set_of_host(t, host));
      for (uint32_t tier = 1; tier < t.tiers; ++tier) groups_[host].push_back(reach.group(tier, tor));
      for (uint32_t level = 0; level < levels_; ++level) ++free_[level][groups_[host][level]];
    }
    rest_ = hosts;
    std::sort(rest_.begin(), rest_.end(), [this](uint32_t a, uint32_t b) { return near(a, b); });
  }

  // In the order of the fabric, so that what is near stands together.
  bool near(uint32_t a, uint32_t b) const {
    for (uint32_t level = levels_; level-- > 0;) {
      if (groups_[a][level] != groups_[b][level]) return groups_[a][level] < groups_[b][level];
    }
    return a < b;
  }

  std::vector<uint32_t> pack(uint32_t blocks, uint32_t size) {
    std::vector<std::vector<uint32_t>> packed;
    for (uint32_t level = 0; level < levels_ && packed.size() < blocks; ++level) {
      while (packed.size() < blocks) {
        const uint32_t from = best_host(level, size);
        if (from == kNone) break;
        // Of a set, all blocks that fit; they are alike, and one look is enough.
        const uint32_t fit = level == 0 ? free_[0][groups_[from][0]] / size : 1;
        const auto wanted = static_cast<uint32_t>(std::min<size_t>(fit, blocks - packed.size()));
        const std::vector<uint32_t> taken = take(level, groups_[from][level], wanted * size);
        for (auto at = taken.begin(); at != taken.end(); at += size) packed.emplace_back(at, at + size);
      }
    }
    while (packed.size() < blocks) packed.push_back(take_anywhere(size));
    std::sort(packed.begin(), packed.end(),
              [this](const auto& a, const auto& b) { return near(a[0], b[0]); });
    std::vector<uint32_t> order;
    for (const auto& block : packed) order.insert(order.end(), block.begin(), block.end());
    return order;
  }

 private:
  static size_t group_count(const Topology& t) { return std::max<size_t>(t.switches.size(), t.sets) + 1; }

  // Whether the group that `a` is in is the better one to take a block of that level from: where the job
  // already is, then where there is most room, judged from the top tier down.
  bool better(uint32_t level, uint32_t a, uint32_t b) const {
    for (uint32_t i = levels_; i-- > level;) {
      const uint32_t x = groups_[a][i], y = groups_[b][i];
      const bool x_used = used_[i][x] > 0, y_used = used_[i][y] > 0;
      if (x_used != y_used) return x_used;
      if (free_[i][x] != free_[i][y]) return free_[i][x] > free_[i][y];
    }
    return false;
  }

  // A host of the best group with room for a block.
  uint32_t best_host(uint32_t level, uint32_t size) const {
    uint32_t best = kNone;
    for (const uint32_t host : rest_) {
      if (free_[level][groups_[host][level]] < size) continue;
      if (best == kNone || better(level, host, best)) best = host;
    }
    return best;
  }

  // `size` hosts of a group that has as many, from as few of its parts as possible.
  std::vector<uint32_t> take(uint32_t level, uint32_t group, uint32_t size) {
    std::vector<uint32_t> block;
    while (block.size() < size) {
      uint32_t part = kNone;
      for (const uint32_t host : rest_) {
        if (groups_[host][level] != group) continue;
        if (part == kNone || free_[0][groups_[host][0]] > free_[0][groups_[part][0]]) part = host;
      }
      take_from_set(groups_[part][0], size, block);
    }
    std::sort(block.begin(), block.end(), [this](uint32_t a, uint32_t b) { return near(a, b); });
    return block;
  }

  void take_from_set(uint32_t set, uint32_t size, std::vector<uint32_t>& block) {
    const auto taken = [&](uint32_t host) {
      if (groups_[host][0] != set || block.size() >= size) return false;
      block.push_back(host);
      for (uint32_t level = 0; level < levels_; ++level) {
        --free_[level][groups_[host][level]];
        ++used_[level][groups_[host][level]];
      }
      return true;
    };
    rest_.erase(std::remove_if(rest_.begin(), rest_.end(), taken), rest_.end());
  }

  // What is left, in order, where even the top tier does not join enough hosts (rails that do not meet).
  std::vector<uint32_t> take_anywhere(uint32_t size) {
    std::vector<uint32_t> block;
    while (block.size() < size) take_from_set(groups_[rest_.front()][0], size, block);
    return block;
  }

  uint32_t levels_ = 1;
  std::vector<std::vector<uint32_t>> groups_;       // [host][level]
  std::vector<std::vector<uint32_t>> free_, used_;  // [level][group]: hosts
  std::vector<uint32_t> rest_;
};

}  // namespace

Placement::Way Placement::way(uint32_t rank, uint32_t other) const {
  if (host_of(rank) == host_of(other)) return {};
  const uint32_t nic = nic_of(rank);
  return {nic, topology->hosts[host_of(other)].first_nic + (nic - topology->hosts[host_of(rank)].first_nic)};
}

Placement place(const Topology& t, const std::vector<uint32_t>& given, uint32_t gpus, const Parallel& p) {
  const std::vector<uint32_t> hosts = given.empty() ? all_hosts(t) : given;
  const uint32_t needed = hosts_needed(t, hosts, gpus, p);
  const uint32_t size = hosts_per_block(p, gpus, needed);
  return {&t, gpus, Packer(t, hosts).pack(needed / size, size)};
}

Placement in_order(const Topology& t, std::vector<uint32_t> hosts, uint32_t gpus, const Parallel& p) {
  if (hosts.empty()) hosts = all_hosts(t);
  hosts.resize(hosts_needed(t, hosts, gpus, p));
  return {&t, gpus, std::move(hosts)};
}

}  // namespace megascale
