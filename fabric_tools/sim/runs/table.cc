#include "fabric_tools/sim/runs/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fabric_tools/text_table.h"

namespace megascale::sim {
std::string TableCells::title() const { return rows.front()->title(); }

std::vector<Column> TableCells::columns() const {
  std::vector<Column> list = sim::columns(topology->tiers);
  std::erase_if(list, [&](const Column& column) {
    if (column.tables != Column::In::kIfAny) return column.tables == Column::In::kNever;
    return std::none_of(rows.begin(), rows.end(),
                        [&](const Cell* cell) { return cell->of(column).most > 0; });
  });
  return list;
}

std::vector<TableCells> tables_of(const Comparison& comparison) {
  std::vector<TableCells> tables;
  for (const Cell& cell : comparison.cells) {
    const Cell* last = tables.empty() ? nullptr : tables.back().rows.back();
    if (last == nullptr || tables.back().topology != cell.plans.front().setup.topology ||
        last->traffic != cell.traffic || last->load != cell.load)
      tables.push_back({cell.plans.front().setup.topology, {}});
    tables.back().rows.push_back(&cell);
  }
  return tables;
}

std::string remark(const Cell& cell) {
  for (const auto& outcome : cell.outcomes)
    if (outcome && !outcome->result.finished) return outcome->result.deadlock ? "DEADLOCK" : "NOT FINISHED";
  if (cell.done() == cell.plans.size()) return {};
  return fmt::format("{} of {} seeds", cell.done(), cell.plans.size());
}

std::string table(const Comparison& comparison) {
  std::string text;
  for (const TableCells& cells : tables_of(comparison)) {
    const std::vector<Column> list = cells.columns();
    std::vector<std::vector<std::string>> rows{{"cc"}};
    for (const Column& column : list) rows[0].push_back(column.title);
    rows[0].insert(rows[0].begin() + 2, "spread");
    for (const Cell* cell : cells.rows) {
      std::vector<std::string> row{cell->cc};
      for (const Column& column : list) row.push_back(text_of(column, cell->of(column).median));
      const Spread spread = cell->of(list.front());
      row.insert(row.begin() + 2, cell->done() > 1 && !std::isnan(spread.least)
                                      ? fmt::format("{:.0f}-{:.0f}", spread.least, spread.most)
                                      : "");
      row.push_back(remark(*cell));
      rows.push_back(std::move(row));
    }
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", cells.title(), text_table(rows, "lr"));
  }
  return text;
}

}  // namespace megascale::sim
