#include "fabric_tools/sim/routes.h"

#include <algorithm>
#include <limits>

namespace megascale::sim {

// Distances in links to one ToR from every switch, and the next hops that they give.
class RouteSearch {
 public:
  static constexpr uint32_t kFar = std::numeric_limits<uint32_t>::max();

  explicit RouteSearch(const Topology&);
  void from(uint32_t tor, const std::vector<bool>& usable);
  // Ports of `at` on a shortest way; empty at the ToR itself and where there is no way.
  void next_hops(uint32_t at, const std::vector<bool>& usable, std::vector<uint32_t>& ports) const;

 private:
  struct Neighbour {
    uint32_t index, link;
    bool low;  // this switch is the low end
  };
  bool may_go_down(uint32_t from, uint32_t to) const;
  void spread(const std::vector<bool>& usable, bool downward);

  const Topology& topology_;
  std::vector<uint32_t> first_;  // of each switch, in neighbours_
  std::vector<Neighbour> neighbours_;
  std::vector<uint32_t> down_, any_;          // distance by going down only; by going up first
  std::vector<std::vector<uint32_t>> rings_;  // switches by distance
};

RouteSearch::RouteSearch(const Topology& topology)
    : topology_(topology), first_(topology.switches.size() + 1), rings_(1) {
  const auto joins_switches = [](const Link& l) {
    return l.low.kind == End::Kind::kSwitch && l.high.kind == End::Kind::kSwitch;
  };
  for (const Link& link : topology.links) {
    if (joins_switches(link)) ++first_[link.low.index + 1], ++first_[link.high.index + 1];
  }
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  neighbours_.resize(first_.back());
  std::vector<uint32_t> place(first_.begin(), first_.end() - 1);
  for (uint32_t l = 0; l < topology.links.size(); ++l) {
    const Link& link = topology.links[l];
    if (!joins_switches(link)) continue;
    neighbours_[place[link.low.index]++] = {link.high.index, l, true};
    neighbours_[place[link.high.index]++] = {link.low.index, l, false};
  }
}

bool RouteSearch::may_go_down(uint32_t from, uint32_t to) const {
  return topology_.switches[from].tier >= topology_.switches[to].tier;
}

// Goes on from the switches in rings_, against the direction of packets.
void RouteSearch::spread(const std::vector<bool>& usable, bool downward) {
  std::vector<uint32_t>& distance = downward ? down_ : any_;
  for (uint32_t d = 0; d < rings_.size(); ++d) {
    for (size_t i = 0; i < rings_[d].size(); ++i) {
      const uint32_t here = rings_[d][i];
      if (distance[here] != d) continue;  // was reached by a shorter way
      for (uint32_t n = first_[here]; n < first_[here + 1]; ++n) {
        const uint32_t there = neighbours_[n].index;
        if (!usable[neighbours_[n].link] || distance[there] <= d + 1) continue;
        if (downward ? !may_go_down(there, here) : !may_go_down(here, there)) continue;
        if (!downward && down_[there] != kFar) continue;  // goes down, however far
        distance[there] = d + 1;
        if (rings_.size() < d + 2) rings_.resize(d + 2);
        rings_[d + 1].push_back(there);
      }
    }
  }
}

void RouteSearch::from(uint32_t tor, const std::vector<bool>& usable) {
  down_.assign(topology_.switches.size(), kFar);
  for (auto& ring : rings_) ring.clear();
  down_[tor] = 0;
  rings_[0].push_back(tor);
  spread(usable, true);
  any_ = down_;
  spread(usable, false);  // rings_ still holds those that can go down
}

void RouteSearch::next_hops(uint32_t at, const std::vector<bool>& usable,
                            std::vector<uint32_t>& ports) const {
  ports.clear();
  if (any_[at] == kFar || any_[at] == 0) return;
  const bool down = down_[at] != kFar;
  for (uint32_t n = first_[at]; n < first_[at + 1]; ++n) {
    const Neighbour& next = neighbours_[n];
    if (!usable[next.link] || (down ? down_ : any_)[next.index] != any_[at] - 1) continue;
    if (down ? may_go_down(at, next.index) : may_go_down(next.index, at)) {
      ports.push_back(next.low ? up_port(next.link) : down_port(next.link));
    }
  }
}

Routes::Routes(const Topology& topology) : topology_(topology) {
  std::vector<uint32_t> column_of_switch(topology.switches.size(), kNone);
  for (const Nic& nic : topology.nics) {
    const uint32_t tor = topology.links[nic.link].high.index;
    if (column_of_switch[tor] == kNone) {
      column_of_switch[tor] = tors_++;
      tor_switch_.push_back(tor);
    }
    column_.push_back(column_of_switch[tor]);
    last_port_.push_back(down_port(nic.link));
  }
  last_usable_.assign(topology.nics.size(), true);
  compute(std::vector<bool>(topology.links.size(), true));
}

void Routes::compute(const std::vector<bool>& usable) {
  table_.assign(topology_.switches.size() * tors_, 0);
  choices_.assign(2, {});
  choices_[1].local = true;
  ports_.clear();
  known_.assign(topology_.switches.size(), {});
  for (size_t nic = 0; nic < topology_.nics.size(); ++nic) {
    last_usable_[nic] = usable[topology_.nics[nic].link];
  }
  RouteSearch search(topology_);
  for (uint32_t column = 0; column < tors_; ++column) fill_column(column, search, usable);
  known_.clear();
}

void Routes::fill_column(uint32_t column, RouteSearch& search, const std::vector<bool>& usable) {
  search.from(tor_switch_[column], usable);
  std::vector<uint32_t> found;
  for (uint32_t at = 0; at < topology_.switches.size(); ++at) {
    uint32_t& entry = table_[size_t{at} * tors_ + column];
    if (at == tor_switch_[column]) {
      entry = 1;
    } else {
      search.next_hops(at, usable, found);
      entry = found.empty() ? 0 : intern(at, found);
    }
  }
}

uint32_t Routes::intern(uint32_t at_switch, const std::vector<uint32_t>& ports) {
  std::vector<uint32_t>& known = known_[at_switch];
  for (auto it = known.rbegin(); it != known.rend(); ++it) {  // the last one is the likeliest
    const Choice& c = choices_[*it];
    if (std::equal(ports.begin(), ports.end(), ports_.begin() + c.first,
                   ports_.begin() + c.first + c.count)) {
      return *it;
    }
  }
  choices_.push_back({static_cast<uint32_t>(ports_.size()), static_cast<uint32_t>(ports.size()), false});
  ports_.insert(ports_.end(), ports.begin(), ports.end());
  known.push_back(static_cast<uint32_t>(choices_.size() - 1));
  return known.back();
}

}  // namespace megascale::sim
