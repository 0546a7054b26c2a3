#include "fabric_tools/topology/fields.h"

#include <fmt/format.h>

#include "fabric_tools/topology/bounds.h"
#include "transport/base/quantity.h"

namespace megascale {

Rate TopologyFields::rate(std::string_view key) const {
  const toml::node* node = find(key, true);
  const std::optional<Rate> value = parse_rate(node->value_or(std::string()));
  if (!node->is_string() || !value || !is_allowed(*value))
    fail(*node, fmt::format("`{}` must be a rate in bits per second, \"1M\" to \"100T\", as \"200G\"", key));
  return *value;
}

Duration TopologyFields::delay(std::string_view key) const {
  const toml::node* node = find(key, true);
  const std::optional<Duration> value = parse_duration(node->value_or(std::string()));
  if (!node->is_string() || !value || !is_allowed(*value))
    fail(*node, fmt::format("`{}` must be a time, \"0s\" to \"1s\", as \"500ns\" or \"1us\"", key));
  return *value;
}

}  // namespace megascale
