// NICs by what people call them: a number, or HOST/RAIL.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>

#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

class NicNames {
 public:
  explicit NicNames(const Topology& topology) : topology_(topology) {}

  std::optional<uint32_t> find(const std::string& name);
  std::string all() const;  // "0 to 127, or host0/0 to host15/7"

 private:
  const Topology& topology_;
  std::unordered_map<std::string, uint32_t> numbers_;  // made when first asked for a name
};

}  // namespace megascale::sim
