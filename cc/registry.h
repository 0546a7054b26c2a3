// The registry of controllers: which there are, which parameters each has, and building one by its name.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cc/controller.h"

namespace megascale {

// A table of a TOML file, read by somebody else: this folder knows no files.
using Parameters = std::map<std::string, double>;

// What is known of the path when a controller is built.
struct PathFacts {
  Rate line_rate = Rate::unlimited();  // of the port that sends
  Bytes packet = 4096;                 // payload of a full packet
  Duration base_rtt{0};                // with empty queues; zero: not known
};

struct Parameter {
  std::string_view name;
  std::string_view unit;  // "bit/s", "bytes", "s", "packets", "" for a plain number
  double fallback;
  double least, most;  // both allowed
  std::string_view sentence;
};

// Builds controllers whose parameters are already chosen, one for each path. They share the constants.
using Recipe = std::function<std::unique_ptr<Controller>(const PathFacts&)>;

struct Algorithm {
  std::string_view name;
  std::string_view sentence;  // what it is and where it is from
  std::span<const Parameter> parameters;
  Recipe (*prepare)(const Parameters& values);  // `values` has every parameter, checked
};

std::span<const Algorithm> algorithms();

// An empty recipe when no algorithm has that name. A parameter that is unknown or out of range is named in
// `complaints`, one sentence each, with what is accepted; its default is used. For who builds many: names and
// ranges are looked at once.
Recipe prepare_controller(std::string_view name, const Parameters&, std::vector<std::string>* complaints);

// The same for one path; nothing when no algorithm has that name.
std::unique_ptr<Controller> build_controller(std::string_view name, const Parameters&, const PathFacts&,
                                             std::vector<std::string>* complaints);

}  // namespace megascale
