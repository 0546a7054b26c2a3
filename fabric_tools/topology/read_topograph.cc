// The JSON of topograph's graph engine (NVIDIA/topograph, docs/engines/graph.md): instances, each with the
// switches above it, the closest first, as in {"instances": [{"id": "n1", "network_layers": ["leaf",
// "spine"]}]}. Labels are left aside.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fabric_tools/topology/check.h"
#include "fabric_tools/topology/tree.h"

namespace megascale {
namespace {

using Json = nlohmann::json;

std::string name_of(const std::string& source, const Json& value, const std::string& what) {
  const std::string* name = value.get_ptr<const std::string*>();
  if (!name || name->empty() || name->size() > 200 ||
      name->find_first_of("/ \t\r\n\"\\") != std::string::npos)
    throw std::invalid_argument(fmt::format(
        "{}: {} must be a name: 1 to 200 characters, no spaces, quotes or slashes", source, what));
  return *name;
}

void hang(const std::string& source, const Json& instance, size_t index, Tree& tree) {
  const std::string where = fmt::format("instances[{}]", index);
  if (!instance.is_object())
    throw std::invalid_argument(fmt::format("{}: {} must be an object", source, where));
  const auto id = instance.find("id"), layers = instance.find("network_layers");
  if (id == instance.end() || layers == instance.end() || !layers->is_array() || layers->empty())
    throw std::invalid_argument(
        fmt::format("{}: {} needs an `id` and `network_layers`, the closest switch first", source, where));
  std::string below;
  for (const Json& layer : *layers) {
    const std::string name = name_of(source, layer, where + ".network_layers");
    if (below.empty()) tree.hang_host(name_of(source, *id, where + ".id"), name);
    else tree.hang_switch(below, name);
    below = name;
  }
}

}  // namespace

Topology read_topology_topograph(std::string_view text, const std::string& source, const Assumed& assumed) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& error) {
    throw std::invalid_argument(fmt::format("{}: {}", source, error.what()));
  }
  const auto instances = document.is_object() ? document.find("instances") : document.end();
  if (!document.is_object() || instances == document.end() || !instances->is_array())
    throw std::invalid_argument(fmt::format(
        "{}: this is not what topograph's graph engine writes: {{\"instances\": [...]}} is missing", source));
  Tree tree(source);
  for (size_t i = 0; i < instances->size(); ++i) hang(source, (*instances)[i], i, tree);
  Topology topology = tree.grow(assumed);
  check(topology, Sets::kAny);
  return topology;
}

}  // namespace megascale
