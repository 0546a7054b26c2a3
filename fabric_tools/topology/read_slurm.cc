// Slurm's topology.conf of the tree plugin: a line a switch, with Nodes= or Switches= (topology.conf(5)).
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "fabric_tools/topology/check.h"
#include "fabric_tools/topology/host_list.h"
#include "fabric_tools/topology/tree.h"

namespace megascale {
namespace {

struct Line {
  uint32_t number = 0;
  std::string text;
};

// Without comments, and with lines that end in a backslash joined to the next.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  bool joined = false;
  uint32_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r'))
      line.remove_suffix(1);
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    if (joined) lines.back().text += line;
    else lines.push_back({number, std::string(line)});
    joined = goes_on;
  }
  return lines;
}

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return low;
}

struct Entry {
  std::string name, nodes, switches;
};

[[noreturn]] void fail(const std::string& source, const Line& line, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}:{}: {}", source, line.number, why));
}

Entry parse(const std::string& source, const Line& line) {
  Entry entry;
  std::string_view rest = line.text;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (rest.empty()) return entry;
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
    rest.remove_prefix(word.size());
    const size_t equals = word.find('=');
    const std::string key = lower(word.substr(0, equals));
    if (equals == std::string_view::npos || equals + 1 == word.size())
      fail(source, line, fmt::format("`{}` is not KEY=VALUE", word.substr(0, 60)));
    const std::string value(word.substr(equals + 1));
    if (key == "switchname") entry.name = value;
    else if (key == "nodes") entry.nodes = value;
    else if (key == "switches") entry.switches = value;
    else if (key.starts_with("block"))
      fail(source, line, "blocks (topology/block) tell of no switches; topology/tree is read here");
    else if (key != "linkspeed")  // Slurm reads it and does not use it
      fail(source, line,
           fmt::format("unknown key `{}`; known are SwitchName, Nodes, Switches and LinkSpeed",
                       word.substr(0, std::min<size_t>(equals, 60))));
  }
}

void hang(const std::string& source, const Line& line, const Entry& entry, Tree& tree) {
  if (entry.name.empty()) fail(source, line, "the line lacks SwitchName=");
  if (entry.nodes.empty() && entry.switches.empty())
    fail(source, line, fmt::format("switch {} needs Nodes= or Switches=", entry.name));
  try {
    const std::vector<std::string> names = expand_host_list(entry.name);
    if (names.size() != 1) fail(source, line, "a line describes one switch");
    if (!entry.nodes.empty()) {
      for (const std::string& host : expand_host_list(entry.nodes)) tree.hang_host(host, names[0]);
    }
    if (!entry.switches.empty()) {
      for (const std::string& child : expand_host_list(entry.switches)) tree.hang_switch(child, names[0]);
    }
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    if (why.starts_with(source)) throw;
    fail(source, line, why);
  }
}

}  // namespace

Topology read_topology_slurm(std::string_view text, const std::string& source, const Assumed& assumed) {
  Tree tree(source);
  std::vector<std::string> described;
  for (const Line& line : lines_of(text)) {
    const Entry entry = parse(source, line);
    if (line.text.find_first_not_of(" \t") == std::string::npos) continue;
    hang(source, line, entry, tree);
    described.push_back(entry.name);
  }
  std::sort(described.begin(), described.end());
  const auto twice = std::adjacent_find(described.begin(), described.end());
  if (twice != described.end())
    throw std::invalid_argument(fmt::format("{}: switch {} is described twice", source, *twice));
  Topology topology = tree.grow(assumed);
  check(topology, Sets::kAny);
  return topology;
}

}  // namespace megascale
