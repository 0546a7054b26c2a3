#include "tests/unit/fabric_tools/sim/networks.h"

#include <algorithm>

#include "fabric_tools/random.h"

namespace megascale::sim {

uint32_t Builder::add_switch(std::string name, uint32_t tier) {
  topology.switches.push_back({std::move(name), tier, kNone, kNone});
  topology.tiers = std::max(topology.tiers, tier + 1);
  return static_cast<uint32_t>(topology.switches.size() - 1);
}

uint32_t Builder::add_nic(uint32_t tor, Rate rate, Duration delay) {
  const auto nic = static_cast<uint32_t>(topology.nics.size());
  topology.hosts.push_back({"host" + std::to_string(nic), nic, 1});
  topology.nics.push_back({nic, 0, static_cast<uint32_t>(topology.links.size())});
  topology.links.push_back({{End::Kind::kNic, nic}, {End::Kind::kSwitch, tor}, rate, delay});
  return nic;
}

uint32_t Builder::join(uint32_t low, uint32_t high, Rate rate, Duration delay) {
  topology.links.push_back({{End::Kind::kSwitch, low}, {End::Kind::kSwitch, high}, rate, delay});
  return static_cast<uint32_t>(topology.links.size() - 1);
}

Topology single_switch(uint32_t nics, Rate rate, Duration delay) {
  Builder b;
  b.add_switch("tor0", 0);
  for (uint32_t i = 0; i < nics; ++i) b.add_nic(0, rate, delay);
  return b.topology;
}

Topology dumbbell(uint32_t left, uint32_t right, Rate edge, Rate middle, Duration delay) {
  Builder b;
  b.add_switch("left", 0);
  b.add_switch("right", 0);
  for (uint32_t i = 0; i < left; ++i) b.add_nic(0, edge, delay);
  for (uint32_t i = 0; i < right; ++i) b.add_nic(1, edge, delay);
  b.join(0, 1, middle, delay);
  return b.topology;
}

Topology leaf_spine(uint32_t leaves, uint32_t spines, uint32_t nics_of_leaf, Rate rate, Rate uplink,
                    Duration delay) {
  Builder b;
  for (uint32_t i = 0; i < leaves; ++i) b.add_switch("leaf" + std::to_string(i), 0);
  for (uint32_t i = 0; i < spines; ++i) b.add_switch("spine" + std::to_string(i), 1);
  for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (uint32_t i = 0; i < nics_of_leaf; ++i) b.add_nic(leaf, rate, delay);
  }
  for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (uint32_t spine = 0; spine < spines; ++spine) b.join(leaf, leaves + spine, uplink, delay);
  }
  return b.topology;
}

Topology fat_tree(uint32_t k, Rate rate, Duration delay) {
  Builder b;
  const uint32_t half = k / 2;
  for (uint32_t i = 0; i < k * half; ++i) b.add_switch("tor" + std::to_string(i), 0);
  for (uint32_t i = 0; i < k * half; ++i) b.add_switch("aggregation" + std::to_string(i), 1);
  for (uint32_t i = 0; i < half * half; ++i) b.add_switch("core" + std::to_string(i), 2);
  const uint32_t aggregation = k * half, core = 2 * k * half;
  for (uint32_t tor = 0; tor < k * half; ++tor) {
    for (uint32_t i = 0; i < half; ++i) b.add_nic(tor, rate, delay);
  }
  for (uint32_t pod = 0; pod < k; ++pod) {
    for (uint32_t a = 0; a < half; ++a) {
      const uint32_t at = aggregation + pod * half + a;
      for (uint32_t t = 0; t < half; ++t) b.join(pod * half + t, at, rate, delay);
      for (uint32_t c = 0; c < half; ++c) b.join(at, core + a * half + c, rate, delay);
    }
  }
  return b.topology;
}

Topology ring(uint32_t switches, uint32_t nics, Rate rate, Duration delay) {
  Builder b;
  for (uint32_t i = 0; i < switches; ++i) b.add_switch("switch" + std::to_string(i), 0);
  for (uint32_t i = 0; i < switches; ++i) {
    for (uint32_t n = 0; n < nics; ++n) b.add_nic(i, rate, delay);
  }
  for (uint32_t i = 0; i < switches; ++i) b.join(i, (i + 1) % switches, rate, delay);
  return b.topology;
}

void Sends::begin(Wire& wire) {
  for (size_t i = 0; i < sends_.size(); ++i) {
    const Send& s = sends_[i];
    wire.post(wire.connect(s.source, s.destination), s.bytes, i, s.at);
  }
}

void Sends::delivered(Wire& wire, const Delivery& d) {
  times_[d.tag] = d.at;
  ++done_;
  wire.close(d.connection);
}

std::vector<Send> incast(uint32_t senders, Bytes bytes) {
  std::vector<Send> sends;
  for (uint32_t i = 1; i <= senders; ++i) sends.push_back({i, 0, bytes});
  return sends;
}

std::vector<Send> permutation(uint32_t nics, Bytes bytes, uint64_t seed) {
  const std::vector<uint32_t> to = Random(seed).derangement(nics);
  std::vector<Send> sends;
  for (uint32_t i = 0; i < nics; ++i) sends.push_back({i, to[i], bytes});
  return sends;
}

std::vector<Send> all_to_all(uint32_t nics, Bytes bytes) {
  std::vector<Send> sends;
  for (uint32_t step = 1; step < nics; ++step) {
    for (uint32_t i = 0; i < nics; ++i) sends.push_back({i, (i + step) % nics, bytes});
  }
  return sends;
}

Setup plain(const Topology& topology) {
  Setup setup;
  setup.topology = &topology;
  setup.model.switches.ecn.on = false;
  return setup;
}

Result run(const Setup& setup, std::vector<Send> sends) {
  Sends traffic(std::move(sends));
  return simulate(setup, traffic);
}

}  // namespace megascale::sim
