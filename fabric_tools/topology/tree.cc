#include "fabric_tools/topology/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "fabric_tools/topology/bounds.h"
#include "fabric_tools/topology/generate.h"
#include "fabric_tools/topology/sets.h"
#include "transport/base/quantity.h"

namespace megascale {
void Tree::fail(const std::string& why) const {
  throw std::invalid_argument(fmt::format("{}: {}", source_, why));
}

uint32_t Tree::node(const std::string& name) {
  const auto [at, fresh] = index_.emplace(name, static_cast<uint32_t>(nodes_.size()));
  if (fresh) nodes_.push_back({.name = name});
  return at->second;
}

void Tree::hang_host(const std::string& host, const std::string& leaf) {
  const uint32_t at = node(leaf);
  const auto [known, fresh] = leaf_of_host_.emplace(host, at);
  if (!fresh)
    fail(fmt::format("host {} hangs below {} and below {}; a tree has one place for it", host,
                     nodes_[known->second].name, leaf));
  nodes_[at].hosts.push_back(static_cast<uint32_t>(hosts_.size()));
  hosts_.push_back(host);
}

void Tree::hang_switch(const std::string& name, const std::string& parent) {
  const uint32_t at = node(name), above = node(parent);
  if (nodes_[at].parent == above) return;
  if (nodes_[at].parent != kNone)
    fail(fmt::format("switch {} hangs below {} and below {}; a tree has one place for it", name,
                     nodes_[nodes_[at].parent].name, parent));
  nodes_[at].parent = above;
  ++nodes_[above].children;
}

std::vector<Tree::Node> Tree::measured() const {
  std::vector<Node> nodes = nodes_;
  for (const Node& leaf : nodes_) {
    if (leaf.children > 0 && !leaf.hosts.empty())
      fail(fmt::format("switch {} has hosts and switches below it; it can have either", leaf.name));
    if (leaf.children == 0 && leaf.hosts.empty())
      fail(fmt::format("switch {} has neither hosts nor switches below it", leaf.name));
    uint32_t height = 0;
    for (uint32_t at = leaf.parent; at != kNone; at = nodes[at].parent) {
      if (++height >= kMostTiers)
        fail(fmt::format("the switches above {} go in a circle, or are more than {} tiers", leaf.name,
                         kMostTiers));
      nodes[at].height = std::max(nodes[at].height, height);
    }
  }
  return nodes;
}

// The file's, so far as a document may have it as a name.
std::string Tree::name() const {
  std::string name = source_.substr(source_.rfind('/') + 1).substr(0, 200);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c <= ' ' || c >= 0x7f; }, '-');
  return name;
}

// The topology while it grows.
struct Tree::Grown {
  const Assumed& assumed;
  Topology t;
  std::vector<uint32_t> first_switch;  // of each node; a leaf has one for each rail
  std::vector<uint64_t> cables_down;   // of each node that is no leaf

  uint32_t rails_of(const Node& node) const { return node.children == 0 ? assumed.nics : 1; }

  void add_switches(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      first_switch.push_back(static_cast<uint32_t>(t.switches.size()));
      t.tiers = std::max(t.tiers, node.height + 1);
      for (uint32_t rail = 0; rail < rails_of(node); ++rail) {
        std::string name = rails_of(node) == 1 ? node.name : fmt::format("{}-{}", node.name, rail);
        t.switches.push_back({std::move(name), node.height, kNone, kNone});
      }
    }
  }

  void add_hosts(const std::vector<std::string>& names, const std::vector<uint32_t>& leaf_of_host) {
    for (uint32_t host = 0; host < names.size(); ++host) {
      t.hosts.push_back({names[host], static_cast<uint32_t>(t.nics.size()), assumed.nics});
      for (uint32_t rail = 0; rail < assumed.nics; ++rail) {
        const auto nic = static_cast<uint32_t>(t.nics.size());
        t.nics.push_back({host, rail, static_cast<uint32_t>(t.links.size())});
        t.links.push_back({{End::Kind::kNic, nic},
                           {End::Kind::kSwitch, first_switch[leaf_of_host[host]] + rail},
                           assumed.host_rate,
                           assumed.delay});
      }
    }
  }

  // From the leaves upward, so that it is known what each must carry.
  void add_cables(const std::vector<Node>& nodes) {
    cables_down.assign(nodes.size(), 0);
    for (uint32_t height = 0; height < t.tiers; ++height) {
      for (uint32_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].height == height && nodes[i].parent != kNone) add_cables_up(nodes, i);
      }
    }
  }

  void add_cables_up(const std::vector<Node>& nodes, uint32_t i) {
    const Node& node = nodes[i];
    uint64_t cables = cables_down[i];
    if (node.children == 0)
      cables =
          static_cast<uint64_t>(std::ceil(static_cast<double>(node.hosts.size()) *
                                          assumed.host_rate.bits_per_second / assumed.rate.bits_per_second));
    for (uint32_t rail = 0; rail < rails_of(node); ++rail) {
      const Link link{{End::Kind::kSwitch, first_switch[i] + rail},
                      {End::Kind::kSwitch, first_switch[node.parent]},
                      assumed.rate,
                      assumed.delay};
      t.links.insert(t.links.end(), cables, link);
      cables_down[node.parent] += cables;
    }
  }
};

Topology Tree::grow(const Assumed& assumed) const {
  if (hosts_.empty()) fail("there are no hosts");
  if (assumed.nics < 1 || assumed.nics > kMostRails)
    fail(fmt::format("{} NICs to a host; 1 to {} are allowed", assumed.nics, kMostRails));
  if (!is_allowed(assumed.rate) || !is_allowed(assumed.host_rate))
    fail("the rates that are assumed must be 1M to 100T bit/s");
  const std::vector<Node> nodes = measured();
  const double nics = static_cast<double>(hosts_.size()) * assumed.nics;
  const double cables =
      nics * (1 + kMostTiers * (1 + assumed.host_rate.bits_per_second / assumed.rate.bits_per_second));
  if (cables * sizeof(Link) > kMostTopologyBytes)
    fail(fmt::format("{:.3g} NICs would need up to {:.3g} cables, which do not fit into {:.0f} GB of memory",
                     nics, cables, kMostTopologyBytes / 1e9));
  std::vector<uint32_t> leaf_of_host(hosts_.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (const uint32_t host : nodes[i].hosts) leaf_of_host[host] = i;
  }
  Grown grown{.assumed = assumed};
  grown.t.name = name();
  grown.t.rails = assumed.nics;
  grown.add_switches(nodes);
  grown.add_hosts(hosts_, leaf_of_host);
  grown.add_cables(nodes);
  grown.t.notes.push_back(fmt::format(
      "{} tells no speeds: assumed are {} NICs to a host at {}bit/s, cables of {}bit/s above, as many as "
      "carry all that comes from below, and {} of delay for each",
      source_, assumed.nics, text_of(assumed.host_rate), text_of(assumed.rate), text_of(assumed.delay)));
  find_sets(grown.t);
  find_pods(grown.t);
  return std::move(grown.t);
}

}  // namespace megascale
