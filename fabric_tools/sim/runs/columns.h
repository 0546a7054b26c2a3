// What is said of a run, each number once: the tables, the JSON documents and the HTML report read this list.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fabric_tools/sim/runs/run.h"

namespace megascale::sim {

struct Column {
  std::string key;                                                 // in JSON, with its unit: "completion_us"
  std::string title;                                               // of a table's column, short
  std::string sentence;                                            // what it is
  int digits = 0;                                                  // behind the decimal point
  std::function<double(const Outcome&)> value;                     // not a number where the run has none
  enum class In { kAlways, kIfAny, kNever } tables = In::kAlways;  // kIfAny: where it is not 0 throughout
};

// For topologies of so many tiers of switches.
std::vector<Column> columns(uint32_t tiers);

// The middle one (of two, their mean), the least and the most; not a number where there is none.
struct Spread {
  double median, least, most;
};
Spread spread_of(std::vector<double> values);

std::string text_of(const Column&, double value);  // "-" for what is not a number

}  // namespace megascale::sim
