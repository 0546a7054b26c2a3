#include "fabric_tools/bench/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace megascale {
namespace {

using Json = nlohmann::ordered_json;

Json head(const Circumstances& what) {
  Json json{{"benchmark",
             what.options.point_to_point ? "point_to_point" : std::string(name_of(what.options.collective))},
            {"ranks", what.ranks},
            {"network", what.network},
            {"plugin", what.plugin}};
  if (what.options.point_to_point) {
    json["connections"] = what.options.connections;
  } else {
    json["type"] = std::string(host::name_of(what.options.type));
    if (reduces(what.options.collective)) json["operator"] = std::string(host::name_of(what.options.op));
    json["rings"] = what.options.rings;
  }
  return json;
}

}  // namespace

double CollectiveRow::algorithm_bandwidth() const {
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

double bus_factor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return (n - 1) / n;
    case Collective::broadcast:
    case Collective::sendrecv:
      return 1;
    case Collective::barrier:
      return 0;
  }
  return 0;
}

void print_heading(const Circumstances& what) {
  fmt::print("# {} ranks over {} ({})\n", what.ranks, what.network, what.plugin);
  if (what.options.point_to_point) {
    fmt::print("# {} connection{}, 8 operations in flight on each; half a round trip with one\n",
               what.options.connections, what.options.connections == 1 ? "" : "s");
    fmt::print("{:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "size", "messages", "GB/s", "CPU s/GB",
               "p50 us", "p99 us", "p99.9 us", "#wrong");
  } else {
    fmt::print("{:>12} {:>12} {:>6} {:>6} {:>11} {:>11} {:>8} {:>8} {:>7}\n", "size", "count", "type",
               "redop", "time us", "longest us", "algbw", "busbw", "#wrong");
    fmt::print("{:>12} {:>12} {:>6} {:>6} {:>11} {:>11} {:>8} {:>8} {:>7}\n", "(B)", "(elements)", "", "", "",
               "", "(GB/s)", "(GB/s)", "");
  }
  std::fflush(stdout);
}

void print_row(const Circumstances& what, const CollectiveRow& row) {
  const BenchOptions& o = what.options;
  const double algorithm = row.algorithm_bandwidth() / 1e9;
  const std::string longest = row.longest > 0 ? fmt::format("{:.1f}", row.longest * 1e6) : "-";
  fmt::print("{:>12} {:>12} {:>6} {:>6} {:>11.1f} {:>11} {:>8.3f} {:>8.3f} {:>7}\n", row.bytes, row.count,
             host::name_of(o.type), reduces(o.collective) ? host::name_of(o.op) : "-", row.seconds * 1e6,
             longest, algorithm, algorithm * bus_factor(o.collective, what.ranks), row.wrong);
  std::fflush(stdout);
}

void print_row(const Circumstances&, const PointToPointRow& row) {
  fmt::print("{:>12} {:>10} {:>9.3f} {:>9.3f} {:>9.2f} {:>9.2f} {:>9.2f} {:>7}\n", row.bytes, row.messages,
             row.bytes_per_second / 1e9, row.cpu_seconds_per_gigabyte, row.p50 * 1e6, row.p99 * 1e6,
             row.p999 * 1e6, row.wrong);
  std::fflush(stdout);
}

void print_total(uint64_t wrong, double bus_bandwidth) {
  if (bus_bandwidth > 0) fmt::print("# average bus bandwidth: {:.3f} GB/s\n", bus_bandwidth / 1e9);
  fmt::print("# wrong elements: {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
  std::fflush(stdout);
}

Json document(const Circumstances& what, const std::vector<CollectiveRow>& rows) {
  Json json = head(what);
  uint64_t wrong = 0;
  Json list = Json::array();
  for (const CollectiveRow& row : rows) {
    wrong += row.wrong;
    const double algorithm = row.algorithm_bandwidth() / 1e9;
    Json entry{{"size", row.bytes},
               {"count", row.count},
               {"operations", row.operations},
               {"time_us", row.seconds * 1e6},
               {"algbw_GBps", algorithm},
               {"busbw_GBps", algorithm * bus_factor(what.options.collective, what.ranks)},
               {"wrong", row.wrong}};
    if (row.longest > 0) entry["longest_us"] = row.longest * 1e6;
    list.push_back(entry);
  }
  json["wrong"] = wrong;
  json["rows"] = list;
  return json;
}

Json document(const Circumstances& what, const std::vector<PointToPointRow>& rows) {
  Json json = head(what);
  uint64_t wrong = 0;
  Json list = Json::array();
  for (const PointToPointRow& row : rows) {
    wrong += row.wrong;
    list.push_back({{"size", row.bytes},
                    {"messages", row.messages},
                    {"GBps", row.bytes_per_second / 1e9},
                    {"cpu_s_per_GB", row.cpu_seconds_per_gigabyte},
                    {"half_round_trip_p50_us", row.p50 * 1e6},
                    {"half_round_trip_p99_us", row.p99 * 1e6},
                    {"half_round_trip_p99.9_us", row.p999 * 1e6},
                    {"half_round_trip_min_us", row.shortest * 1e6},
                    {"wrong", row.wrong}});
  }
  json["wrong"] = wrong;
  json["rows"] = list;
  return json;
}

}  // namespace megascale
