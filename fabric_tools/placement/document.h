// A placement as a JSON document, for programs and to be read again: by the simulator's `step` traffic, for
// one. Format: {"format": "megascale-placement", "version": 1, "topology", "parallel": {"tensor", "pipeline",
// "data"}, "model": {...}, "gpus_per_host", "hosts": [names in order of ranks], "ranks": [{"rank", "host",
// "local_rank", "rail"}]}. `ranks` repeats for readers what follows from the rest.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "fabric_tools/placement/placement.h"

namespace megascale {

struct PlacementDocument {
  Parallel parallel;
  TrainingModel model;
  Placement placement;
};

nlohmann::ordered_json to_json(const PlacementDocument&);

// The topology must be the one that the placement was made for, or have hosts of the same names. Throws
// std::invalid_argument naming `source` and what is wrong.
PlacementDocument parse_placement(std::string_view text, const std::string& source, const Topology&);
PlacementDocument read_placement(const std::string& path, const Topology&);

}  // namespace megascale
