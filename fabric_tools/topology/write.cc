#include "fabric_tools/topology/write.h"

#include <fmt/format.h>

#include <iterator>

#include "fabric_tools/topology/sets.h"
#include "transport/base/quantity.h"

namespace megascale {
namespace {

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

bool alike(const Link& a, const Link& b) {
  return a.low == b.low && a.high == b.high && a.rate == b.rate && a.delay == b.delay;
}

}  // namespace

std::string explicit_toml(const Topology& t) {
  std::string text;
  for (const std::string& note : t.notes) text += fmt::format("# {}\n", printable(note));
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "kind = \"explicit\"\nname = {}\n", quoted(t.name));
  if (!t.rails_meet) text += "rails_meet = false\n";
  if (!unequal_sets(t).empty()) text += "unequal_sets = true\n";
  for (const Host& host : t.hosts)
    fmt::format_to(out, "\n[[host]]\nname = {}\nnics = {}\n", quoted(host.name), host.nics);
  for (const Switch& s : t.switches) {
    fmt::format_to(out, "\n[[switch]]\nname = {}\ntier = {}\n", quoted(s.name), s.tier);
    if (s.set != kNone) fmt::format_to(out, "set = {}\n", s.set);
    if (s.pod != kNone) fmt::format_to(out, "pod = {}\n", s.pod);
  }
  for (size_t i = 0, next; i < t.links.size(); i = next) {
    const Link& link = t.links[i];
    for (next = i + 1; next < t.links.size() && alike(link, t.links[next]);) ++next;
    fmt::format_to(out, "\n[[link]]\nlow = {}\nhigh = {}\nrate = \"{}\"\ndelay = \"{}\"\n",
                   quoted(name_of(t, link.low)), quoted(name_of(t, link.high)), text_of(link.rate),
                   text_of(link.delay));
    if (next - i > 1) fmt::format_to(out, "cables = {}\n", next - i);
  }
  return text;
}

}  // namespace megascale
