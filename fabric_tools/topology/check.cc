#include "fabric_tools/topology/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <unordered_set>

#include "fabric_tools/topology/bounds.h"
#include "fabric_tools/topology/sets.h"

namespace megascale {
namespace {

constexpr size_t kShown = 3;  // of each kind of problem

// Collects problems of one kind and throws them together.
class Problems {
 public:
  void add(std::string problem) {
    if (++count_ <= kShown) text_ += fmt::format("{}{}", text_.empty() ? "" : "; ", problem);
  }
  void raise() const {
    if (count_ == 0) return;
    const size_t more = count_ - std::min(count_, kShown);
    throw std::invalid_argument(more > 0 ? fmt::format("{}; and {} more like these", text_, more) : text_);
  }

 private:
  std::string text_;
  size_t count_ = 0;
};

bool is_plain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\'' && c != '\\' && c != '/';
  });
}

void check_names(const Topology& t) {
  Problems problems;
  std::unordered_set<std::string_view> seen;
  const auto take = [&](const char* what, const std::string& name) {
    if (name.empty()) problems.add(fmt::format("a {} has no name", what));
    else if (!is_plain(name))
      problems.add(
          fmt::format("{} `{}`: a name has letters, digits and signs of ASCII, no spaces, quotes, "
                      "backslashes, or slashes (one stands between host and rail)",
                      what, printable(name).substr(0, 80)));
    else if (!seen.insert(name).second)
      problems.add(fmt::format("{} `{}`: the name is given twice", what, name));
  };
  for (const Host& host : t.hosts) take("host", host.name);
  for (const Switch& s : t.switches) take("switch", s.name);
  problems.raise();
}

void check_links(const Topology& t) {
  Problems problems;
  std::vector<uint32_t> links_of_nic(t.nics.size(), 0), links_of_switch(t.switches.size(), 0);
  for (const Link& link : t.links) {
    const auto complain = [&](const std::string& why) {
      problems.add(
          fmt::format("the link from {} to {} {}", name_of(t, link.low), name_of(t, link.high), why));
    };
    const bool from_nic = link.low.kind == End::Kind::kNic;
    ++(from_nic ? links_of_nic : links_of_switch)[link.low.index];
    ++links_of_switch[link.high.index];
    if (!from_nic && t.switches[link.low.index].tier >= t.switches[link.high.index].tier)
      complain(fmt::format("does not lead upward: from tier {} to tier {}", t.switches[link.low.index].tier,
                           t.switches[link.high.index].tier));
    if (!is_allowed(link.rate))
      complain(fmt::format("has a rate of {:.4g} bit/s; 1M to 100T are allowed", link.rate.bits_per_second));
    if (!is_allowed(link.delay))
      complain(fmt::format("has a delay of {} ns; 0 to 1 s are allowed", link.delay.count()));
  }
  for (uint32_t i = 0; i < t.nics.size(); ++i) {
    if (links_of_nic[i] != 1)
      problems.add(fmt::format("NIC {} has {} links; each has one", nic_name(t, i), links_of_nic[i]));
  }
  for (uint32_t i = 0; i < t.switches.size(); ++i) {
    if (links_of_switch[i] == 0) problems.add(fmt::format("switch {} has no links", t.switches[i].name));
  }
  problems.raise();
}

// A host belongs to the set in which most of its NICs are. In a set, a rail is the ToR on which most of its
// NICs are.
void check_rails(const Topology& t) {
  Problems problems;
  std::vector<uint32_t> sets;
  for (uint32_t host = 0; host < t.hosts.size(); ++host) sets.push_back(set_of_host(t, host));
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> tors;  // by set and rail
  for (const Nic& nic : t.nics) tors[{sets[nic.host], nic.rail}].push_back(t.links[nic.link].high.index);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> expected;
  for (const auto& [rail, on] : tors) expected[rail] = most_frequent(on);
  for (uint32_t i = 0; i < t.nics.size(); ++i) {
    const uint32_t is = t.links[t.nics[i].link].high.index;
    const uint32_t should = expected[{sets[t.nics[i].host], t.nics[i].rail}];
    if (is != should)
      problems.add(fmt::format("NIC {} hangs on {}, where rail {} of its set hangs on {}: a swapped cable?",
                               nic_name(t, i), t.switches[is].name, t.nics[i].rail, t.switches[should].name));
  }
  problems.raise();
}

void check_sets(Topology& t, Sets sets) {
  if (t.hosts.empty()) throw std::invalid_argument("there are no hosts");
  const std::string what = unequal_sets(t);
  if (what.empty()) return;
  if (sets == Sets::kAny) t.notes.push_back(what);
  else throw std::invalid_argument(what + "; say unequal_sets = true if that is meant");
}

// The switches without anything above them that can be reached by going up: two switches that have one in
// common reach each other. Equal collections get equal numbers, and in a regular fabric few differ.
class Tops {
 public:
  explicit Tops(const Topology& t) : ids_(t.switches.size()) {
    std::vector<std::vector<uint32_t>> above(t.switches.size()), by_tier(t.tiers);
    for (const Link& link : t.links) {
      if (link.low.kind == End::Kind::kSwitch) above[link.low.index].push_back(link.high.index);
    }
    for (uint32_t i = 0; i < t.switches.size(); ++i) by_tier[t.switches[i].tier].push_back(i);
    for (uint32_t tier = t.tiers; tier-- > 0;) {
      for (const uint32_t i : by_tier[tier]) ids_[i] = above[i].empty() ? add({i}) : united(above[i]);
    }
  }

  uint32_t id(uint32_t switch_index) const { return ids_[switch_index]; }

  bool meet(uint32_t id, uint32_t other) const {
    std::vector<uint32_t> both;
    std::set_intersection(tops_[id].begin(), tops_[id].end(), tops_[other].begin(), tops_[other].end(),
                          std::back_inserter(both));
    return !both.empty();
  }

 private:
  static void tidy(std::vector<uint32_t>& v) {
    std::sort(v.begin(), v.end());
    v.erase(std::unique(v.begin(), v.end()), v.end());
  }

  uint32_t add(std::vector<uint32_t> tops) {
    const auto [at, fresh] = known_.emplace(std::move(tops), static_cast<uint32_t>(tops_.size()));
    if (fresh) tops_.push_back(at->first);
    return at->second;
  }

  uint32_t united(const std::vector<uint32_t>& switches) {
    std::vector<uint32_t> ids;
    for (const uint32_t i : switches) ids.push_back(ids_[i]);
    tidy(ids);
    const auto seen = unions_.find(ids);
    if (seen != unions_.end()) return seen->second;
    std::vector<uint32_t> tops;
    for (const uint32_t id : ids) tops.insert(tops.end(), tops_[id].begin(), tops_[id].end());
    tidy(tops);
    return unions_[ids] = add(std::move(tops));
  }

  std::vector<uint32_t> ids_;
  std::vector<std::vector<uint32_t>> tops_;
  std::map<std::vector<uint32_t>, uint32_t> known_, unions_;
};

void check_reach(const Topology& t) {
  Problems problems;
  const Tops tops(t);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t>
      nics;  // one for each rail (or all) and collection of tops
  for (uint32_t i = 0; i < t.nics.size(); ++i) {
    const uint32_t rail = t.rails_meet ? 0 : t.nics[i].rail;
    nics.emplace(std::pair(rail, tops.id(t.links[t.nics[i].link].high.index)), i);
  }
  for (auto a = nics.begin(); a != nics.end(); ++a) {
    for (auto b = std::next(a); b != nics.end() && b->first.first == a->first.first; ++b) {
      if (!tops.meet(a->first.second, b->first.second))
        problems.add(fmt::format("there is no way from {} to {}: no switch lies above both",
                                 nic_name(t, a->second), nic_name(t, b->second)));
    }
  }
  problems.raise();
}

}  // namespace

void check(Topology& t, Sets sets) {
  check_names(t);
  check_links(t);
  check_rails(t);
  check_sets(t, sets);
  check_reach(t);
}

}  // namespace megascale
