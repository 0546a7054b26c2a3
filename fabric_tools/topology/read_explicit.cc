#include "fabric_tools/topology/read_explicit.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "fabric_tools/topology/bounds.h"
#include "fabric_tools/topology/fields.h"
#include "fabric_tools/topology/generate.h"
#include "fabric_tools/topology/sets.h"

namespace megascale {
namespace {

class Explicit {
 public:
  Explicit(const toml::table& document, const std::string& source)
      : source_(source),
        document_(document, source, "the document",
                  {"kind", "name", "rails_meet", "unequal_sets", "host", "switch", "link"}) {}

  Topology read() {
    t_.name = document_.text("name", "explicit");
    t_.rails_meet = document_.yes("rails_meet", true);
    for (const toml::node& node : needed("host")) add_host(*node.as_table());
    for (const toml::node& node : needed("switch")) add_switch(*node.as_table());
    for (const toml::node& node : needed("link")) add_link(*node.as_table());
    find_sets(t_);
    find_pods(t_);
    return std::move(t_);
  }

 private:
  const toml::array& needed(const char* key) const {
    const toml::array* array = document_.tables(key);
    if (!array || array->empty()) document_.fail(fmt::format("at least one [[{}]] is needed", key));
    return *array;
  }

  void add_host(const toml::table& table) {
    const TopologyFields f(table, source_, "[[host]]", {"name", "nics"});
    const auto host = static_cast<uint32_t>(t_.hosts.size());
    const uint32_t nics = f.count("nics", 1, kMostRails, 1);
    t_.hosts.push_back({f.text("name"), static_cast<uint32_t>(t_.nics.size()), nics});
    for (uint32_t rail = 0; rail < nics; ++rail) {
      const auto nic = static_cast<uint32_t>(t_.nics.size());
      t_.nics.push_back({host, rail, kNone});
      add_end(f, nic_name(t_, nic), {End::Kind::kNic, nic});
    }
    t_.rails = std::max(host == 0 ? 0 : t_.rails, nics);
  }

  void add_switch(const toml::table& table) {
    const TopologyFields f(table, source_, "[[switch]]", {"name", "tier", "set", "pod"});
    const Switch s{f.text("name"), f.count("tier", 0, kMostTiers - 1, 0),
                   f.has("set") ? f.count("set", 0, kMostGroups) : kNone,
                   f.has("pod") ? f.count("pod", 0, kMostGroups) : kNone};
    add_end(f, s.name, {End::Kind::kSwitch, static_cast<uint32_t>(t_.switches.size())});
    t_.tiers = std::max(t_.tiers, s.tier + 1);
    t_.switches.push_back(s);
  }

  void add_end(const TopologyFields& f, const std::string& name, End end) {
    if (!ends_.emplace(name, end).second) f.fail(fmt::format("the name `{}` is given twice", name));
  }

  void add_link(const toml::table& table) {
    const TopologyFields f(table, source_, "[[link]]", {"low", "high", "rate", "delay", "cables"});
    const Link link{end(f, "low"), end(f, "high"), f.rate("rate"), f.delay("delay")};
    if (link.high.kind == End::Kind::kNic)
      f.fail("`high` must be a switch; a NIC is the low end of its link");
    const uint32_t cables = f.count("cables", 1, 1024, 1);
    if (link.low.kind == End::Kind::kNic) {
      Nic& nic = t_.nics[link.low.index];
      if (nic.link != kNone || cables != 1)
        f.fail(fmt::format("NIC {} has more than one link", nic_name(t_, link.low.index)));
      nic.link = static_cast<uint32_t>(t_.links.size());
    }
    if (static_cast<double>(t_.links.size() + cables) * sizeof(Link) > kMostTopologyBytes)
      f.fail(fmt::format("more than {:.0f} links are more than {:.0f} GB",
                         static_cast<double>(t_.links.size()), kMostTopologyBytes / 1e9));
    t_.links.insert(t_.links.end(), cables, link);
  }

  End end(const TopologyFields& f, const char* key) const {
    const std::string name = f.text(key);
    const auto at = ends_.find(name);
    if (at == ends_.end())
      f.fail(fmt::format("`{}` is neither a switch nor a NIC (HOST/RAIL, rails count from 0)", name));
    return at->second;
  }

  const std::string& source_;
  const TopologyFields document_;
  Topology t_;
  std::unordered_map<std::string, End> ends_;
};

}  // namespace

Topology read_explicit(const toml::table& document, const std::string& source) {
  return Explicit(document, source).read();
}

}  // namespace megascale
