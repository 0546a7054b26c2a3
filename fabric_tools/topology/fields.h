// A table of a topology's document: rates and delays within the bounds of links.
#pragma once
#include "fabric_tools/toml_fields.h"

namespace megascale {

class TopologyFields : public TomlFields {
 public:
  using TomlFields::TomlFields;

  Rate rate(std::string_view key) const;       // "200G": 1M to 100T bit/s
  Duration delay(std::string_view key) const;  // "500ns": 0 to 1s
};

}  // namespace megascale
