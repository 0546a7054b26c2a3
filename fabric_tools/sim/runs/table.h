// The table of a comparison: one for each topology, traffic and load, with a row for each congestion control.
#pragma once
#include <string>
#include <vector>

#include "fabric_tools/sim/runs/comparison.h"

namespace megascale::sim {

struct TableCells {
  const Topology* topology;
  std::vector<const Cell*> rows;

  std::string title() const;            // what all rows have in common
  std::vector<Column> columns() const;  // those worth showing
};
std::vector<TableCells> tables_of(const Comparison&);

// What is wrong with a row: seeds that did not run, runs that did not end; mostly nothing.
std::string remark(const Cell&);

std::string table(const Comparison&);  // for people: medians, and of the completion the spread

}  // namespace megascale::sim
