// The explicit TOML form: every host, switch and link by name.
#pragma once
#include <string>

#include "fabric_tools/topology/topology.h"
#include "transport/base/toml.h"

namespace megascale {

// Throws std::invalid_argument with file and line. Not checked yet.
Topology read_explicit(const toml::table& document, const std::string& source);

}  // namespace megascale
