#include "fabric_tools/sim/runs/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace megascale::sim {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

double us(Duration d) { return seconds(d) * 1e6; }
double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
double number(uint64_t n) { return static_cast<double>(n); }

void add_times(std::vector<Column>& list) {
  list.push_back({"completion_us", "compl us",
                  "when the traffic was over, in microseconds; nothing where it was not", 1,
                  [](const Outcome& o) { return o.result.finished ? us(o.completion) : kMissing; }});
  list.push_back(
      {"over_ideal", "/ideal", "completion over what no network can beat", 3, [](const Outcome& o) {
         const bool known = o.result.finished && o.ideal && *o.ideal > Duration(0);
         return known ? us(o.completion) / us(*o.ideal) : kMissing;
       }});
  list.push_back({"ideal_us", "ideal us", "that bound, in microseconds", 1,
                  [](const Outcome& o) { return o.ideal ? us(*o.ideal) : kMissing; }, Column::In::kNever});
  const char* slowdown = "time of a message over what it takes alone, ";
  list.push_back({"slowdown_mean", "slow", std::string(slowdown) + "mean", 2, [](const Outcome& o) {
                    return o.result.messages > 0 ? o.result.slowdown.mean : kMissing;
                  }});
  list.push_back({"slowdown_p50", "p50", std::string(slowdown) + "median", 2,
                  [](const Outcome& o) { return o.result.messages > 0 ? o.result.slowdown.p50 : kMissing; },
                  Column::In::kNever});
  list.push_back({"slowdown_p99", "p99", std::string(slowdown) + "99th percentile", 2,
                  [](const Outcome& o) { return o.result.messages > 0 ? o.result.slowdown.p99 : kMissing; }});
  list.push_back({"slowdown_max", "max", std::string(slowdown) + "the slowest", 2,
                  [](const Outcome& o) { return o.result.messages > 0 ? o.result.slowdown.max : kMissing; }});
  list.push_back({"jain", "Jain", "fairness among connections (Jain, Chiu, Hawe 1984): 1 is equal", 3,
                  [](const Outcome& o) { return o.result.messages > 0 ? o.result.jain : kMissing; }});
}

void add_queues(std::vector<Column>& list, uint32_t tiers) {
  const char* queue = "kilobytes that data packets met at switches, ";
  list.push_back({"queue_mean_kb", "queue KB", std::string(queue) + "mean", 1,
                  [](const Outcome& o) { return o.result.queue.mean / 1e3; }});
  list.push_back({"queue_p99_kb", "p99", std::string(queue) + "99th percentile", 1,
                  [](const Outcome& o) { return o.result.queue.p99 / 1e3; }});
  list.push_back({"queue_max_kb", "max", std::string(queue) + "the longest", 1,
                  [](const Outcome& o) { return o.result.queue.max / 1e3; }});
  list.push_back({"pauses", "pauses", "PFC pauses, of all tiers", 0,
                  [](const Outcome& o) { return number(o.result.pauses); }});
  list.push_back({"paused_us", "paused us", "microseconds that ports stood still, added up", 0,
                  [](const Outcome& o) { return us(o.result.paused); }});
  list.push_back({"last_pause_us", "last pause", "when the last pause was sent, in microseconds", 1,
                  [](const Outcome& o) { return us(o.result.last_pause); }, Column::In::kNever});
  for (uint32_t t = 0; t < tiers; ++t) {
    const auto tier = [t](const Outcome& o) {
      return t < o.result.tiers.size() ? &o.result.tiers[t] : nullptr;
    };
    const std::string of = fmt::format("tier{}_", t), at = fmt::format(" of tier {} (0 has the ToRs)", t);
    list.push_back({of + "pauses", fmt::format("T{} pauses", t), "PFC pauses" + at, 0,
                    [tier](const Outcome& o) { return tier(o) ? number(tier(o)->pauses) : kMissing; },
                    Column::In::kIfAny});
    list.push_back(
        {of + "paused_us", fmt::format("T{} paused us", t), "microseconds that ports stood still" + at, 0,
         [tier](const Outcome& o) { return tier(o) ? us(tier(o)->paused) : kMissing; }, Column::In::kIfAny});
    list.push_back({of + "queue_p99_kb", fmt::format("T{} queue p99 KB", t),
                    "kilobytes met, 99th percentile," + at, 1,
                    [tier](const Outcome& o) { return tier(o) ? tier(o)->queue.p99 / 1e3 : kMissing; },
                    Column::In::kNever});
    list.push_back({of + "utilisation_percent", fmt::format("T{} util %", t),
                    "mean share of the rate that was used" + at, 1,
                    [tier](const Outcome& o) { return tier(o) ? tier(o)->utilisation * 100 : kMissing; },
                    Column::In::kNever});
  }
}

void add_packets(std::vector<Column>& list) {
  list.push_back({"ecn_percent", "ECN %", "share of data packets that was marked", 2,
                  [](const Outcome& o) { return 100 * share(o.result.marked, o.result.data_packets); }});
  list.push_back(
      {"drops", "drops", "packets lost", 0, [](const Outcome& o) { return number(o.result.dropped); }});
  list.push_back({"retransmissions", "retx", "data packets sent again", 0,
                  [](const Outcome& o) { return number(o.result.retransmitted); }});
  list.push_back({"timeouts", "timeouts", "of retransmission", 0,
                  [](const Outcome& o) { return number(o.result.timeouts); }, Column::In::kNever});
  list.push_back({"cnps", "CNPs", "congestion notification packets", 0,
                  [](const Outcome& o) { return number(o.result.cnps); }, Column::In::kNever});
  list.push_back({"busiest_percent", "util %", "utilisation of the busiest port", 1,
                  [](const Outcome& o) { return o.result.utilisation_of_busiest * 100; }});
  list.push_back({"victim_gbps", "victim", "goodput of a flow that has no part in the congestion, Gb/s", 2,
                  [](const Outcome& o) { return o.victim ? o.victim->bits_per_second / 1e9 : kMissing; },
                  Column::In::kIfAny});
  list.push_back({"messages", "messages", "delivered", 0,
                  [](const Outcome& o) { return number(o.result.messages); }, Column::In::kNever});
  list.push_back({"data_packets", "packets", "data packets sent", 0,
                  [](const Outcome& o) { return number(o.result.data_packets); }, Column::In::kNever});
  list.push_back({"delivered_bytes", "bytes", "payload", 0,
                  [](const Outcome& o) { return number(o.result.delivered); }, Column::In::kNever});
  list.push_back({"watchdogs", "watchdogs", "queues that the PFC watchdog drained", 0,
                  [](const Outcome& o) { return number(o.result.watchdogs); }, Column::In::kNever});
}

}  // namespace

std::vector<Column> columns(uint32_t tiers) {
  std::vector<Column> list;
  add_times(list);
  add_queues(list, tiers);
  add_packets(list);
  return list;
}

Spread spread_of(std::vector<double> values) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  if (values.empty()) return {kMissing, kMissing, kMissing};
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return {values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2, values.front(),
          values.back()};
}

std::string text_of(const Column& column, double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, column.digits);
}

}  // namespace megascale::sim
