#include "cc/registry.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "cc/barre.h"
#include "cc/dcqcn.h"
#include "cc/fixed.h"
#include "cc/hpcc.h"
#include "cc/hybrid.h"
#include "cc/nscc.h"
#include "cc/swift.h"
#include "cc/timely.h"

namespace megascale {
namespace {

const std::array kAlgorithms = {fixed_algorithm(), dcqcn_algorithm(), swift_algorithm(), timely_algorithm(),
                                hpcc_algorithm(),  nscc_algorithm(),  barre_algorithm(), hybrid_algorithm()};

std::string print(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string accepted(const Parameter& p) {
  std::string text = print(p.least) + " to " + print(p.most);
  if (!p.unit.empty()) text.append(" ").append(p.unit);
  return text;
}

template <class Range>
std::string names(const Range& named) {
  std::string list;
  for (const auto& one : named) list.append(list.empty() ? "" : ", ").append(one.name);
  return list;
}

// A message must stay a line, whoever wrote the name.
std::string shown(std::string_view name) {
  std::string text(name.substr(0, 64));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return "'" + text + "'";
}

Parameters check(const Algorithm& algorithm, const Parameters& given, std::vector<std::string>* complaints) {
  const std::string who = "controller " + std::string(algorithm.name) + ": ";
  Parameters values;
  for (const Parameter& p : algorithm.parameters) values[std::string(p.name)] = p.fallback;
  for (const auto& [name, value] : given) {
    const auto p = std::find_if(algorithm.parameters.begin(), algorithm.parameters.end(),
                                [&wanted = name](const Parameter& one) { return one.name == wanted; });
    if (p == algorithm.parameters.end()) {
      complaints->push_back(who + "the parameter " + shown(name) + " is unknown; it has " +
                            names(algorithm.parameters) + ". It is ignored.");
    } else if (!(value >= p->least && value <= p->most)) {  // also when it is not a number
      complaints->push_back(who + name + " = " + print(value) + " is out of range; accepted: " +
                            accepted(*p) + ". Using " + print(p->fallback) + ".");
    } else {
      values[name] = value;
    }
  }
  return values;
}

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

Recipe prepare_controller(std::string_view name, const Parameters& given,
                          std::vector<std::string>* complaints) {
  std::vector<std::string> unheard;
  if (!complaints) complaints = &unheard;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.name == name) return algorithm.prepare(check(algorithm, given, complaints));
  }
  complaints->push_back("no congestion controller has the name " + shown(name) +
                        "; there are: " + names(kAlgorithms) + ".");
  return {};
}

std::unique_ptr<Controller> build_controller(std::string_view name, const Parameters& given,
                                             const PathFacts& path, std::vector<std::string>* complaints) {
  const Recipe recipe = prepare_controller(name, given, complaints);
  return recipe ? recipe(path) : nullptr;
}

}  // namespace megascale
