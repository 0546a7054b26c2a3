#include "fabric_tools/sim/runs/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fabric_tools/sim/runs/html_plot.h"
#include "fabric_tools/sim/runs/table.h"

namespace megascale::sim {
namespace {

constexpr int kColours = 10;
constexpr size_t kCurvePoints = 400, kHeatCells = 256;

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5d636b; --page: #ffffff; --card: #f6f7f9; --line: #d9dce1; --heat: #b3261e;
  --good: #e3f2e6; --c0: #0b5fa5; --c1: #d35400; --c2: #1e8449; --c3: #8e44ad; --c4: #b8860b; --c5: #e91e63; --c6: #00838f;
  --c7: #6d4c41; --c8: #5c6bc0; --c9: #7f8c1f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a0a6ae; --page: #15171a; --card: #1e2125; --line: #363b42;
  --heat: #ff8a65; --good: #1f3a27; --c0: #64b5f6; --c1: #ffab66; --c2: #81c995; --c3: #ce93d8; --c4: #ffd54f; --c5: #ef5350;
  --c6: #4dd0e1; --c7: #bcaaa4; --c8: #9fa8da; --c9: #dce775; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1560px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 8px; } p { margin: 4px 0 12px; color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 12px; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 4px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; } th:first-child, td:first-child { text-align: left; }
td small { display: block; color: var(--soft); font-size: 10.5px; font-weight: 400; } td.best { background: var(--good); font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 14px; margin-top: 14px; }
.plots > div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 11.5px; }
svg .title { fill: var(--ink); font-size: 13.5px; font-weight: 600; } .grid { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .cell { fill: var(--heat); }
.swatch { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
details { margin-top: 28px; color: var(--soft); } dt { font-weight: 600; color: var(--ink); } dd { margin: 0 0 4px 18px; }
)";

// The run that plots show: of the first seed.
const Outcome* shown(const Cell& cell) { return cell.outcomes[0] ? &*cell.outcomes[0] : nullptr; }

std::string spread_text(const Column& column, const Spread& spread, size_t runs) {
  const std::string least = text_of(column, spread.least), most = text_of(column, spread.most);
  if (runs < 2 || least == most) return {};
  return fmt::format("<small>{} – {}</small>", least, most);
}

std::string table_of(const TableCells& group) {
  const std::vector<Column> list = group.columns();
  std::string html = "<div class=\"wide\"><table><thead><tr><th>congestion control</th>";
  for (const Column& column : list)
    html += fmt::format("<th title=\"{}\">{}</th>", escape(column.sentence), escape(column.title));
  html += "</tr></thead><tbody>\n";
  double best = HUGE_VAL;  // of those whose every run has an end
  for (const Cell* cell : group.rows)
    if (remark(*cell).empty()) best = std::fmin(best, cell->of(list.front()).median);
  for (size_t i = 0; i < group.rows.size(); ++i) {
    const Cell& cell = *group.rows[i];
    const std::string note = remark(cell);
    html += fmt::format("<tr><td><span class=\"swatch\" style=\"background: var(--c{})\"></span>{}{}</td>",
                        i % kColours, escape(cell.cc), note.empty() ? "" : "<small>" + note + "</small>");
    for (const Column& column : list) {
      const Spread spread = cell.of(column);
      const bool is_best =
          &column == &list.front() && note.empty() && spread.median <= best * 1.0005 && group.rows.size() > 1;
      html += fmt::format("<td{}>{}{}</td>", is_best ? " class=\"best\"" : "", text_of(column, spread.median),
                          spread_text(column, spread, cell.done()));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string slowdowns_of(const TableCells& group) {
  std::vector<Curve> curves;
  double least = HUGE_VAL, most = 1;
  for (size_t i = 0; i < group.rows.size(); ++i) {
    const Outcome* outcome = shown(*group.rows[i]);
    if (outcome == nullptr || outcome->result.slowdowns.empty()) continue;
    std::vector<float> sorted = outcome->result.slowdowns;
    std::sort(sorted.begin(), sorted.end());
    Curve curve{static_cast<int>(i % kColours), group.rows[i]->cc, {}};
    const size_t points = std::min(sorted.size(), kCurvePoints);
    curve.points.emplace_back(std::max<double>(sorted.front(), 1), 0);
    for (size_t p = 1; p <= points; ++p) {
      const size_t at = p * sorted.size() / points;
      curve.points.emplace_back(sorted[at - 1], static_cast<double>(at) / static_cast<double>(sorted.size()));
    }
    least = std::min<double>(least, sorted.front()), most = std::max<double>(most, sorted.back());
    curves.push_back(std::move(curve));
  }
  const double from = least > 4 && least < HUGE_VAL ? least * 0.8 : 1;
  return plot({"Slowdown of messages", "time over what it takes alone", "share of messages", most > 8 * from,
               from, 0, 1},
              curves);
}

std::string port_name(const Topology& topology, const Port& port) {
  const Link& link = topology.links[port.link];
  const std::string low = name_of(topology, link.low), high = name_of(topology, link.high);
  return port.up ? low + " to " + high : high + " to " + low;
}

// Of the sampled ports, the one whose queue was longest.
const Series* longest_queue(const Outcome& outcome) {
  const Series* found = nullptr;
  float longest = -1;
  for (const Series& series : outcome.result.series) {
    if (series.queue.empty()) continue;
    const float most = *std::max_element(series.queue.begin(), series.queue.end());
    if (most > longest) found = &series, longest = most;
  }
  return found;
}

// Of several samples that fall on one point, queues show the longest, rates the mean.
std::vector<std::pair<double, double>> thin(const std::vector<float>& values, Duration sample, double scale,
                                            bool longest) {
  std::vector<std::pair<double, double>> points;
  const size_t step = std::max<size_t>((values.size() + kCurvePoints - 1) / kCurvePoints, 1);
  for (size_t at = 0; at < values.size(); at += step) {
    const size_t end = std::min(at + step, values.size());
    double most = 0, sum = 0;
    for (size_t i = at; i < end; ++i) most = std::max<double>(most, values[i]), sum += values[i];
    points.emplace_back(seconds(sample) * 1e6 * static_cast<double>(at),
                        (longest ? most : sum / static_cast<double>(end - at)) * scale);
  }
  return points;
}

std::string over_time(const TableCells& group) {
  std::vector<Curve> queues, rates;
  for (size_t i = 0; i < group.rows.size(); ++i) {
    const Outcome* outcome = shown(*group.rows[i]);
    const Series* series = outcome == nullptr ? nullptr : longest_queue(*outcome);
    if (series == nullptr) continue;
    const Duration sample = outcome->result.sample;
    const std::string name =
        group.rows[i]->cc + ": " + port_name(*group.topology, outcome->result.ports[series->port]);
    queues.push_back({static_cast<int>(i % kColours), name, thin(series->queue, sample, 1e-3, true)});
    rates.push_back({static_cast<int>(i % kColours), name, thin(series->rate, sample, 1e-9, false)});
  }
  if (queues.empty()) return {};
  return "<div>" + plot({"Queue of the port where it was longest", "microseconds", "kilobytes"}, queues) +
         "</div>\n<div>" + plot({"Rate of that port", "microseconds", "Gb/s"}, rates) + "</div>\n";
}

// Neighbours share a cell where there are too many: it shows the busiest of them.
HeatRow heat_row(const Topology& topology, const std::string& name, const std::vector<const Port*>& ports) {
  HeatRow row{name, {}};
  const size_t step = (ports.size() + kHeatCells - 1) / kHeatCells;
  for (size_t at = 0; at < ports.size(); at += step) {
    const Port* most = ports[at];
    for (size_t i = at; i < std::min(at + step, ports.size()); ++i)
      if (ports[i]->utilisation > most->utilisation) most = ports[i];
    row.cells.emplace_back(
        most->utilisation,
        fmt::format("{}: {:.1f} % used, mean queue {:.1f} KB, paused {:.1f} us", port_name(topology, *most),
                    most->utilisation * 100, most->mean_queue / 1e3, seconds(most->paused) * 1e6));
  }
  return row;
}

std::string heat_map(const Topology& topology, const Cell& cell) {
  const Outcome* outcome = shown(cell);
  if (outcome == nullptr) return {};
  std::map<std::pair<uint32_t, bool>, std::vector<const Port*>>
      by_level;  // tier that the link leads up to; up first
  for (const Port& port : outcome->result.ports)
    by_level[{topology.switches[topology.links[port.link].high.index].tier, !port.up}].push_back(&port);
  std::vector<HeatRow> rows;
  for (const auto& [level, ports] : by_level) {
    const auto [tier, down] = level;
    const std::string low = tier == 0 ? "NICs" : fmt::format("tier {}", tier - 1),
                      high = tier == 0 ? "ToRs" : fmt::format("tier {}", tier);
    rows.push_back(heat_row(topology, fmt::format("{} → {}", down ? high : low, down ? low : high), ports));
  }
  return "<div>" + heat_map("Use of links: " + cell.cc + " (faint: idle, full: always busy)", rows) +
         "</div>\n";
}

std::string section_of(const TableCells& group) {
  std::string html = "<h2>" + escape(group.title()) + "</h2>\n" + table_of(group);
  html += "<div class=\"plots\">\n<div>" + slowdowns_of(group) + "</div>\n" + over_time(group) + "</div>\n";
  html += "<div class=\"plots\">\n";
  for (const Cell* cell : group.rows) html += heat_map(*group.topology, *cell);
  return html + "</div>\n";
}

std::string glossary(const std::vector<Column>& list) {
  std::string html = "<details><summary>What the columns say</summary><dl>\n";
  for (const Column& column : list)
    if (column.tables != Column::In::kNever)
      html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape(column.title), escape(column.sentence));
  return html + "</dl></details>\n";
}

}  // namespace

std::string html(const Comparison& comparison) {
  const std::vector<Column> list = columns(comparison.tiers);
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Congestion control, "
      "compared</title>\n<style>";
  text += kStyle;
  for (int c = 0; c < kColours; ++c) text += fmt::format(".c{} {{ stroke: var(--c{}); }}\n", c, c);
  text += "</style></head><body>\n<h1>Congestion control, compared</h1>\n";
  text += fmt::format(
      "<p>Medians over {} seed{}{}; plots show the first. Point at a heading, a curve or a link for "
      "more.{}</p>\n",
      comparison.seeds.size(), comparison.seeds.size() == 1 ? "" : "s",
      comparison.seeds.size() > 1 ? ", with the least and the most below" : "",
      comparison.stopped ? " <strong>Stopped before everything had run.</strong>" : "");
  for (const TableCells& group : tables_of(comparison)) text += section_of(group);
  return text + glossary(list) + "</body></html>\n";
}

}  // namespace megascale::sim
