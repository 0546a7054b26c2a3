// Fuzzes the readers of topologies. The first line says which: "toml", "slurm", "topograph" or "hosts"; the
// rest is the text. Whatever is accepted is sound: its explicit form is read back as the same topology.
#include <stdexcept>
#include <string>
#include <string_view>

#include "fabric_tools/topology/host_list.h"
#include "fabric_tools/topology/read.h"
#include "fabric_tools/topology/write.h"
#include "tests/fuzz/fuzz.h"

using namespace megascale;

namespace {

// A topology may be large, and a fuzzer's time is short.
constexpr size_t kMostParts = 3000;

void check_again(const Topology& t) {
  if (t.links.size() + t.switches.size() > kMostParts) return;
  for (const Nic& nic : t.nics) must(nic.link < t.links.size(), "a NIC without a link was accepted");
  Topology again;
  try {
    again = read_topology_toml(explicit_toml(t), "again");
  } catch (const std::invalid_argument& error) {
    fprintf(stderr, "%s\n", error.what());
    must(false, "the explicit form of an accepted topology was refused");
  }
  must(again.hosts.size() == t.hosts.size() && again.nics.size() == t.nics.size() &&
           again.switches.size() == t.switches.size() && again.links.size() == t.links.size() &&
           again.sets == t.sets,
       "the explicit form is another topology");
}

// The counts in a text stay small: the generators obey, and would make what was asked for.
bool has_long_number(std::string_view text) {
  size_t digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 3) return true;
  }
  return false;
}

void read(std::string_view kind, std::string_view text) {
  if (kind == "toml") check_again(read_topology_toml(text, "fuzz.toml"));
  if (kind == "slurm") check_again(read_topology_slurm(text, "fuzz.conf", {.nics = 2}));
  if (kind == "topograph") check_again(read_topology_topograph(text, "fuzz.json", {}));
  if (kind == "hosts") must(expand_host_list(text).size() <= kMostHostsInList + 1, "too many hosts");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view kind = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), kind.size() + 1));
  if (has_long_number(text)) return 0;
  try {
    read(kind, text);
  } catch (const std::invalid_argument& error) {
    must(std::string_view(error.what()).size() < 4000, "a long complaint");
  }
  return 0;
}
