// Fuzzes the readers of traces and placements. The first line says which: "trace" or "placement"; the rest is
// the text. Whatever is accepted has something to send, between hosts that there are.
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "fabric_tools/placement/document.h"
#include "fabric_tools/sim/traffic/trace.h"
#include "fabric_tools/topology/read.h"
#include "tests/fuzz/fuzz.h"

using namespace megascale;

namespace {

const Topology& four_hosts() {
  static const Topology topology = read_topology_toml(
      "kind = \"single_switch\"\nhosts = 4\nrate = \"100G\"\ndelay = \"1us\"\n", "four hosts");
  return topology;
}

void read(std::string_view kind, const std::string& text) {
  if (kind == "trace") {
    std::istringstream lines(text);
    must(sim::Trace::read(lines, "fuzz.jsonl", four_hosts())->messages() > 0, "an empty trace was accepted");
  }
  if (kind == "placement") {
    const PlacementDocument document = parse_placement(text, "fuzz.json", four_hosts());
    for (const uint32_t host : document.placement.hosts)
      must(host < 4, "a host that is not there was accepted");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view kind = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), kind.size() + 1));
  try {
    read(kind, std::string(text));
  } catch (const std::invalid_argument& error) {
    must(std::string_view(error.what()).size() < 10'000, "a long complaint");
  }
  return 0;
}
