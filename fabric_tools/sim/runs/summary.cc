#include "fabric_tools/sim/runs/summary.h"

#include <fmt/format.h>

#include <map>

namespace megascale::sim {
namespace {

// One line of the summary: a heading, then columns by their keys, each with its own title.
struct Line {
  const char* heading;
  std::vector<std::pair<const char*, const char*>> values;  // before the value, key
};

const Line kLines[] = {
    {"completion us", {{"", "completion_us"}, {"over ideal", "over_ideal"}, {"ideal", "ideal_us"}}},
    {"slowdown",
     {{"mean", "slowdown_mean"}, {"p50", "slowdown_p50"}, {"p99", "slowdown_p99"}, {"max", "slowdown_max"}}},
    {"fairness (Jain)", {{"", "jain"}}},
    {"queue KB", {{"mean", "queue_mean_kb"}, {"p99", "queue_p99_kb"}, {"max", "queue_max_kb"}}},
    {"PFC",
     {{"pauses", "pauses"},
      {"paused us", "paused_us"},
      {"last at us", "last_pause_us"},
      {"watchdogs", "watchdogs"}}},
    {"ECN %", {{"", "ecn_percent"}, {"CNPs", "cnps"}}},
    {"losses", {{"drops", "drops"}, {"retransmissions", "retransmissions"}, {"timeouts", "timeouts"}}},
    {"utilisation %", {{"busiest port", "busiest_percent"}}},
    {"victim Gb/s", {{"", "victim_gbps"}}},
    {"sent", {{"messages", "messages"}, {"packets", "data_packets"}, {"bytes", "delivered_bytes"}}},
};

std::string tiers_of(const Result& result) {
  std::string text = fmt::format("\n  {:<10}{:>10}{:>14}{:>15}{:>12}{:>14}{:>10}\n", "tier", "pauses",
                                 "paused us", "queue mean KB", "p99", "max", "util %");
  for (size_t t = 0; t < result.tiers.size(); ++t) {
    const Tier& tier = result.tiers[t];
    text += fmt::format("  {:<10}{:>10}{:>14.1f}{:>15.1f}{:>12.1f}{:>14.1f}{:>10.1f}\n",
                        t == 0 ? "0 (ToRs)" : std::to_string(t), tier.pauses, seconds(tier.paused) * 1e6,
                        tier.queue.mean / 1e3, tier.queue.p99 / 1e3, tier.queue.max / 1e3,
                        tier.utilisation * 100);
  }
  return text;
}

}  // namespace

std::string summary(const Comparison& comparison) {
  const Cell& cell = comparison.cells.front();
  std::string text =
      fmt::format("{}, {}, {}, seed {}\n", cell.topology, cell.traffic, cell.cc, comparison.seeds[0]);
  if (!cell.outcomes[0]) return text + "  stopped before there was anything to tell\n";
  const Outcome& outcome = *cell.outcomes[0];
  if (outcome.result.deadlock) text += "  DEADLOCK: a circle of paused queues\n";
  if (!outcome.result.finished)
    text += fmt::format("  NOT FINISHED: what follows is of the {} messages that were delivered\n",
                        outcome.result.messages);
  const auto list = columns(comparison.tiers);
  std::map<std::string, const Column*> by_key;
  for (const Column& column : list) by_key[column.key] = &column;
  for (const Line& line : kLines) {
    std::string values;
    for (const auto& [title, key] : line.values) {
      const Column& column = *by_key.at(key);
      const std::string value = text_of(column, column.value(outcome));
      if (value != "-") values += fmt::format("  {}{}{}", title, *title == '\0' ? "" : " ", value);
    }
    if (!values.empty()) text += fmt::format("  {:<16}{}\n", line.heading, values);
  }
  return text + tiers_of(outcome.result);
}

}  // namespace megascale::sim
