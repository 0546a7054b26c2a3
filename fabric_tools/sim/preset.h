// Presets of congestion control: an algorithm, every constant of it, and what its authors ask of switches and
// receivers, in a file of configs/cc/ that is named after its source.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fabric_tools/sim/simulation.h"

namespace megascale::sim {

struct Preset {
  std::string name;  // as it was asked for
  std::string file;
  std::string algorithm, source;
  Parameters parameters;
  std::vector<std::pair<std::string, std::string>> network;  // fields of the model, as set_field() takes them
};

// `name` is "swift", "dcqcn:connectx" for dcqcn-connectx.toml, or the path of a file that ends in .toml; then
// any number of "+PARAMETER=VALUE" that replace one of its parameters, for ablations: "hybrid+marks=0".
//
// Looked for in `folder` if that is given; else in the configs/cc of the source, of the tree that the program
// stands in, or of the installation. Throws std::invalid_argument: no such preset (with those that there
// are), a malformed file (with its line), an unknown key, algorithm, parameter or field, a value out of
// range.
Preset load_preset(const std::string& name, const std::string& folder = {});

std::vector<std::string> preset_names(const std::string& folder = {});  // sorted; file names without .toml

// The preset's algorithm, parameters and network go into the setup; the rest of its model stays.
void apply(const Preset&, Setup&);

}  // namespace megascale::sim
