#include "tests/integration/sim/fluid.h"

#include <algorithm>
#include <limits>

#include "fabric_tools/random.h"
#include "fabric_tools/sim/routes.h"

namespace megascale::sim {
namespace {

struct Flow {
  Way ports;
  double left, rate = 0;  // bytes, bytes/s
  bool fixed = false;
};

// Opens all connections, as the real traffic does, so that each has the hash that it has there; one sends.
class OneOf final : public Traffic {
 public:
  OneOf(const std::vector<Send>& sends, size_t which) : sends_(sends), which_(which) {}
  void begin(Wire& wire) override {
    for (size_t i = 0; i < sends_.size(); ++i) {
      const ConnectionId c = wire.connect(sends_[i].source, sends_[i].destination);
      if (i == which_) wire.post(c, 1, 0, Time{});
    }
  }
  void delivered(Wire&, const Delivery&) override { done_ = true; }
  bool finished() const override { return done_; }
  double progress() const override { return done_; }
  uint64_t connections() const override { return sends_.size(); }

 private:
  const std::vector<Send>& sends_;
  size_t which_;
  bool done_ = false;
};

Way draw_way(const Topology& t, const Routes& routes, const Send& s, Random& random) {
  Way way = {up_port(t.nics[s.source].link)};
  for (;;) {
    const Link& link = t.links[way.back() / 2];
    const End to = way.back() == up_port(way.back() / 2) ? link.high : link.low;
    if (to.kind == End::Kind::kNic) return way;
    const auto next = routes.ports(to.index, s.destination);
    way.push_back(next[random.below(static_cast<uint32_t>(next.size()))]);
  }
}

// The port that can give the least to each of those that have no rate yet sets theirs, and so on.
void share(const Topology& t, std::vector<Flow>& flows) {
  std::vector<double> capacity(2 * t.links.size());
  std::vector<uint32_t> open(capacity.size());
  for (size_t p = 0; p < capacity.size(); ++p) capacity[p] = t.links[p / 2].rate.bytes_per_second();
  for (Flow& f : flows) {
    f.fixed = f.left <= 0;
    f.rate = 0;
    if (f.fixed) continue;
    for (const uint32_t p : f.ports) ++open[p];
  }
  for (;;) {
    double least = std::numeric_limits<double>::infinity();
    uint32_t tightest = 0;
    for (uint32_t p = 0; p < capacity.size(); ++p) {
      if (open[p] == 0 || capacity[p] / open[p] >= least) continue;
      least = capacity[p] / open[p];
      tightest = p;
    }
    if (least == std::numeric_limits<double>::infinity()) return;
    for (Flow& f : flows) {
      if (f.fixed || std::find(f.ports.begin(), f.ports.end(), tightest) == f.ports.end()) continue;
      f.fixed = true;
      f.rate = least;
      for (const uint32_t p : f.ports) {
        capacity[p] -= least;
        --open[p];
      }
    }
  }
}

}  // namespace

std::vector<Way> draw_ways(const Topology& t, const std::vector<Send>& sends, uint64_t seed) {
  const Routes routes(t);
  Random random(seed);
  std::vector<Way> ways;
  for (const Send& s : sends) ways.push_back(draw_way(t, routes, s, random));
  return ways;
}

std::vector<Way> hashed_ways(const Setup& setup, const std::vector<Send>& sends) {
  std::vector<Way> ways(sends.size());
  for (size_t i = 0; i < sends.size(); ++i) {
    OneOf one(sends, i);
    const Result r = simulate(setup, one);
    ways[i].push_back(
        up_port(setup.topology->nics[sends[i].source].link));  // switches count packets, NICs not
    for (uint32_t p = 0; p < r.ports.size(); ++p) {
      if (r.ports[p].packets > 0 && p != ways[i][0]) ways[i].push_back(p);
    }
  }
  return ways;
}

std::vector<double> fluid_times(const Topology& t, const std::vector<FluidFlow>& wanted) {
  std::vector<Flow> flows;
  for (const FluidFlow& f : wanted) flows.push_back({f.way, f.bytes});
  std::vector<double> times(flows.size());
  double now = 0;
  for (size_t done = 0; done < flows.size();) {
    share(t, flows);
    double step = std::numeric_limits<double>::infinity();
    for (const Flow& f : flows) {
      if (f.left > 0) step = std::min(step, f.left / f.rate);
    }
    now += step;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].left <= 0) continue;
      flows[i].left -= flows[i].rate * step;
      if (flows[i].left > 1e-3) continue;  // bytes: rounding
      flows[i].left = 0;
      times[i] = now;
      ++done;
    }
  }
  return times;
}

}  // namespace megascale::sim
