#include "fabric_tools/sim/traffic/tree.h"

#include <algorithm>

namespace megascale::sim {
namespace {

// Trees over the places 1 to n in the order of the field: a place's level is that of its lowest set bit, so
// odd places are leaves. 0: it is the root.
uint32_t parent_of(uint32_t place, uint32_t n) {
  const uint32_t bit = place & (~place + 1);
  const uint64_t parent = (place ^ bit) | (uint64_t{bit} << 1);
  return parent <= n ? static_cast<uint32_t>(parent) : place ^ bit;
}

// Tags: the node that receives, and whether the chunk goes down.
constexpr uint64_t tag_of(uint32_t node, bool down) { return uint64_t{node} << 1 | (down ? 1 : 0); }

}  // namespace

TreeAllReduce::TreeAllReduce(const Groups& groups, Bytes buffer, Bytes chunk)
    : buffer_(buffer), chunk_(chunk) {
  for (const auto& group : groups) {
    add_tree(group, 0);
    std::vector<uint32_t> other(group);
    // Leaves and inner nodes change places: by a mirror where n is even, by a shift where it is odd.
    if (other.size() % 2 == 0) std::reverse(other.begin(), other.end());
    else std::rotate(other.begin(), other.begin() + 1, other.end());
    if (buffer_ > 1) add_tree(other, 1);
  }
}

void TreeAllReduce::add_tree(const std::vector<uint32_t>& nics, uint32_t tree) {
  const auto first = static_cast<uint32_t>(nodes_.size()), n = static_cast<uint32_t>(nics.size());
  for (uint32_t i = 0; i < n; ++i) nodes_.push_back({.nic = nics[i], .tree = tree});
  for (uint32_t place = 1; place <= n; ++place) {
    const uint32_t parent = parent_of(place, n);
    if (parent == 0) continue;
    nodes_[first + place - 1].parent = first + parent - 1;
    nodes_[first + parent - 1].children[place < parent ? 0 : 1] = first + place - 1;
    count_ += 2 * chunks(nodes_[first]);
  }
}

uint64_t TreeAllReduce::chunks(const Node& node) const {
  const Bytes half = buffer_ / 2 + (node.tree == 0 ? buffer_ % 2 : 0);
  return (half + chunk_ - 1) / chunk_;
}

Bytes TreeAllReduce::bytes_of(const Node& node, uint64_t chunk) const {
  const Bytes half = buffer_ / 2 + (node.tree == 0 ? buffer_ % 2 : 0);
  return std::min(chunk_, half - chunk * chunk_);
}

uint64_t TreeAllReduce::connections() const {
  uint64_t edges = 0;
  for (const Node& node : nodes_) edges += node.parent != kNobody ? 2 : 0;
  return edges;
}

void TreeAllReduce::begin(Wire& wire) {
  for (Node& node : nodes_) {
    if (node.parent != kNobody) node.to_parent = wire.connect(node.nic, nodes_[node.parent].nic);
    for (size_t i = 0; i < 2; ++i)
      if (node.children[i] != kNobody)
        node.to_children[i] = wire.connect(node.nic, nodes_[node.children[i]].nic);
  }
  for (uint32_t i = 0; i < nodes_.size(); ++i) send_up(wire, i);
}

void TreeAllReduce::send_up(Wire& wire, uint32_t index) {
  Node& node = nodes_[index];
  uint64_t ready = chunks(node);
  for (size_t i = 0; i < 2; ++i)
    if (node.children[i] != kNobody) ready = std::min(ready, node.summed[i]);
  for (; node.sent_up < ready; ++node.sent_up) {
    if (node.parent == kNobody) send_down(wire, index, node.sent_up);
    else
      wire.post(node.to_parent, bytes_of(node, node.sent_up),
                tag_of(node.parent, false) << 1 | (nodes_[node.parent].children[1] == index ? 1 : 0), Time{});
  }
}

void TreeAllReduce::send_down(Wire& wire, uint32_t index, uint64_t chunk) {
  const Node& node = nodes_[index];
  for (size_t i = 0; i < 2; ++i) {
    if (node.children[i] != kNobody)
      wire.post(node.to_children[i], bytes_of(node, chunk), tag_of(node.children[i], true) << 1, Time{});
  }
}

void TreeAllReduce::delivered(Wire& wire, const Delivery& delivery) {
  ++done_;
  const size_t child = delivery.tag & 1;
  const bool down = (delivery.tag & 2) != 0;
  const auto index = static_cast<uint32_t>(delivery.tag >> 2);
  Node& node = nodes_[index];
  const uint64_t came = down ? ++node.received_down : ++node.summed[child];
  if (came == chunks(node)) wire.close(delivery.connection);
  if (down) send_down(wire, index, came - 1);
  else send_up(wire, index);
}

}  // namespace megascale::sim
