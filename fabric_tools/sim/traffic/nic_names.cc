#include "fabric_tools/sim/traffic/nic_names.h"

#include <fmt/format.h>

#include "transport/base/quantity.h"

namespace megascale::sim {

std::optional<uint32_t> NicNames::find(const std::string& name) {
  const auto count = static_cast<uint32_t>(topology_.nics.size());
  if (const auto number = parse_number(name)) {
    if (!(*number >= 0 && *number < count) || *number != static_cast<double>(static_cast<uint32_t>(*number)))
      return {};
    return static_cast<uint32_t>(*number);
  }
  if (numbers_.empty()) {
    for (uint32_t nic = 0; nic < count; ++nic) numbers_.emplace(nic_name(topology_, nic), nic);
  }
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return {};
  return found->second;
}

std::string NicNames::all() const {
  const auto last = static_cast<uint32_t>(topology_.nics.size() - 1);
  return fmt::format("0 to {}, or {} to {}", last, nic_name(topology_, 0), nic_name(topology_, last));
}

}  // namespace megascale::sim
