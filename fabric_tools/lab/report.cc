#include "fabric_tools/lab/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "fabric_tools/text_table.h"
#include "transport/base/quantity.h"

namespace megascale::lab {
namespace {

using Json = nlohmann::json;

// Fields of a line that somebody else wrote: of any type, or absent.
double number(const Json& line, const char* key) {
  auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : 0;
}

std::string text(const Json& line, const char* key) {
  auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<Json> in_order(const std::vector<std::string>& lines, size_t& malformed) {
  std::vector<Json> events;
  for (const std::string& line : lines) {
    Json event = Json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("event")) {
      events.push_back(std::move(event));
    } else {
      ++malformed;
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Json& a, const Json& b) { return number(a, "mono_ns") < number(b, "mono_ns"); });
  return events;
}

// Takes events in the order they happened and joins each recovery to the flap that it ends.
class Digester {
 public:
  explicit Digester(Report& report) : report_(report) {}

  void start_at(double mono_ns) { start_ = mono_ns; }
  void know(const Json& event) {
    if (event.contains("rank") && number(event, "rank") >= 0)
      ranks_[number(event, "pid")] = number(event, "rank");
  }

  void take(const Json& event) {
    std::string name = text(event, "event");
    double at = (number(event, "mono_ns") - start_) / 1e9;
    if (name == "flap") {
      flap(event, at);
    } else if (name == "recovered") {
      recovered(event, at);
    } else if (name == "rail") {
      rail(event);
    } else if (name == "returned") {
      ++report_.returns;
      report_.incidents.push_back(
          {at, fmt::format("rank {}: connection {} returned to {}", number(event, "rank"),
                           text(event, "connection"), text(event, "rail"))});
    } else if (name == "failed") {
      ++report_.failed_connections;
      report_.incidents.push_back(
          {at, fmt::format("rank {}: connection failed: {}", number(event, "rank"), text(event, "why"))});
    } else if (name == "fault") {
      fault(event, at);
    } else if (name == "rank_end" && number(event, "status") != 0) {
      report_.incidents.push_back({at, fmt::format("rank {} ended with status {}", number(event, "of_rank"),
                                                   number(event, "status"))});
    }
  }

 private:
  // Connections of a process may share a name: to one peer, from another.
  using Key = std::tuple<int64_t, std::string, std::string, std::string>;
  static Key key_of(const Json& event) {
    return {static_cast<int64_t>(number(event, "pid")), text(event, "direction"), text(event, "peer"),
            text(event, "connection")};
  }

  // "process 123 at 10.1.0.2" is "rank 2" where that process spoke up, too.
  std::string peer_of(const Json& event) const {
    std::string peer = text(event, "peer");
    double pid = 0;
    if (sscanf(peer.c_str(), "process %lf", &pid) != 1) return peer;
    auto rank = ranks_.find(pid);
    return rank == ranks_.end() ? peer : fmt::format("rank {}", rank->second);
  }

  Flap& add(const Json& event, double at) {
    Flap flap;
    flap.at = at;
    flap.rank = event.contains("rank") ? static_cast<int64_t>(number(event, "rank")) : -1;
    flap.connection = text(event, "connection");
    flap.direction = text(event, "direction");
    flap.peer = peer_of(event);
    report_.flaps.push_back(flap);
    return report_.flaps.back();
  }

  void flap(const Json& event, double at) {
    Flap& flap = add(event, at);
    flap.rail = text(event, "rail");
    flap.cause = text(event, "cause");
    auto [entry, fresh] = open_.try_emplace(key_of(event), report_.flaps.size() - 1);
    if (fresh) return;
    report_.flaps[entry->second].with_next = true;
    entry->second = report_.flaps.size() - 1;
  }

  void recovered(const Json& event, double at) {
    auto entry = open_.find(key_of(event));
    Flap& flap = entry != open_.end() ? report_.flaps[entry->second] : add(event, at);
    if (entry == open_.end()) {
      flap.rail = text(event, "rail_from");
      flap.cause = "other end";
    } else {
      open_.erase(entry);
    }
    flap.recovered = true;
    flap.onto = text(event, "rail");
    flap.fenced = number(event, "fenced");
    flap.replayed_chunks = number(event, "replayed_chunks");
    flap.replayed_bytes = number(event, "replayed_bytes");
    flap.stalled_ms = number(event, "stalled_ms");
  }

  void rail(const Json& event) {
    RailTotals& rail = report_.rails[text(event, "rail")];
    ++rail.processes;
    rail.bytes_sent += number(event, "bytes_sent");
    rail.bytes_received += number(event, "bytes_received");
    rail.retransmissions += number(event, "retransmissions");
    rail.flaps += number(event, "flaps");
    rail.fenced += number(event, "fenced");
    rail.replayed_bytes += number(event, "replayed_bytes");
    rail.lost_ms += number(event, "lost_ms");
    if (number(event, "rtt_us") > 0) rail.rtt_us_sum += number(event, "rtt_us"), ++rail.rtt_samples;
  }

  void fault(const Json& event, double at) {
    std::string sentence = fmt::format("fault: {} on {}", text(event, "kind"), text(event, "place"));
    if (text(event, "phase") == "end") sentence += " is over";
    else if (number(event, "for_s") > 0) sentence += fmt::format(" for {:g} s", number(event, "for_s"));
    if (!text(event, "detail").empty()) sentence += " (" + text(event, "detail") + ")";
    if (text(event, "effect") != "done") sentence += ": " + text(event, "effect");
    // It was written down when it was done; what it causes comes from its beginning on.
    report_.incidents.push_back({at - number(event, "took_ms") / 1e3, sentence});
  }

  Report& report_;
  double start_ = 0;
  std::map<double, double> ranks_;  // by process id
  std::map<Key, size_t> open_;      // the last flap of a connection that has not recovered
};

using Row = std::vector<std::string>;

Row row_of(const Flap& flap) {
  Row row{fmt::format("{:.3f}", flap.at),
          flap.rank < 0 ? "?" : std::to_string(flap.rank),
          flap.connection,
          flap.direction.empty() ? flap.peer : flap.direction + " " + flap.peer,
          flap.rail.empty() ? "-" : flap.rail,
          flap.cause.empty() ? "?" : flap.cause};
  if (flap.recovered) {
    row.insert(row.end(),
               {flap.onto, fmt::format("{:g}", flap.fenced), fmt::format("{:g}", flap.replayed_chunks),
                short_size_text(flap.replayed_bytes), fmt::format("{:.0f} ms", flap.stalled_ms)});
  } else {
    row.insert(row.end(), {flap.with_next ? "(see its next)" : "(not needed)", "", "", "", ""});
  }
  return row;
}

// Nothing had to be replayed, and nobody waited.
bool harmless(const Flap& flap) {
  return flap.recovered && flap.replayed_bytes <= 0 && flap.stalled_ms < 0.5;
}

// Harmless flaps are only counted: a fault of a rail hits every idle connection, too.
std::string flap_table(const Report& report) {
  std::vector<Row> rows{{"seconds", "rank", "connection", "peer", "lost rail", "cause", "went on over",
                         "fenced", "chunks", "replayed", "stood still"}};
  std::vector<std::pair<double, Row>> lines;
  for (const Incident& incident : report.incidents)
    lines.emplace_back(incident.at, Row{fmt::format("{:7.3f}  -- {}", incident.at, incident.sentence)});
  for (const Flap& flap : report.flaps) lines.emplace_back(flap.at, harmless(flap) ? Row{} : row_of(flap));
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t left_out = 0;
  const auto tell_left_out = [&] {
    if (left_out > 0) rows.push_back({fmt::format("{:>7}  -- and {} with nothing under way", "", left_out)});
    left_out = 0;
  };
  for (auto& [at, row] : lines) {
    if (row.empty()) ++left_out;
    if (row.size() == 1) tell_left_out();
    if (!row.empty()) rows.push_back(std::move(row));
  }
  tell_left_out();
  return text_table(rows, "rrlllllr");
}

std::string rail_table(const Report& report) {
  std::vector<Row> rows{{"rail", "processes", "sent", "received", "mean rtt", "retransmitted", "flaps",
                         "fenced", "replayed", "stood still"}};
  for (const auto& [name, rail] : report.rails) {
    rows.push_back({name, std::to_string(rail.processes), short_size_text(rail.bytes_sent),
                    short_size_text(rail.bytes_received),
                    rail.rtt_samples ? fmt::format("{:.0f} us", rail.rtt_us_sum / rail.rtt_samples) : "-",
                    fmt::format("{:g}", rail.retransmissions), fmt::format("{:g}", rail.flaps),
                    fmt::format("{:g}", rail.fenced), short_size_text(rail.replayed_bytes),
                    fmt::format("{:.0f} ms", rail.lost_ms)});
  }
  return text_table(rows, "lr");
}

struct Totals {
  size_t recovered = 0;
  double replayed_bytes = 0, longest_ms = 0;
};

Totals totals_of(const Report& report) {
  Totals totals;
  for (const Flap& flap : report.flaps) {
    totals.recovered += flap.recovered ? 1 : 0;
    totals.replayed_bytes += flap.replayed_bytes;
    totals.longest_ms = std::max(totals.longest_ms, flap.stalled_ms);
  }
  return totals;
}

}  // namespace

Report digest(const std::vector<std::string>& lines) {
  Report report;
  report.lines = lines.size();
  std::vector<Json> events = in_order(lines, report.malformed);
  Digester digester(report);
  auto start = std::find_if(events.begin(), events.end(),
                            [](const Json& e) { return text(e, "event") == "lab_start"; });
  if (start == events.end()) start = events.begin();
  if (start != events.end()) digester.start_at(number(*start, "mono_ns"));
  for (const Json& event : events) digester.know(event);
  for (const Json& event : events) digester.take(event);
  return report;
}

Report read_report(const std::string& folder) {
  std::vector<std::string> lines;
  size_t files = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream stream(entry.path());
    if (!stream) throw std::runtime_error("cannot read " + entry.path().string());
    ++files;
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty()) lines.push_back(std::move(line));
    }
  }
  if (error) throw std::runtime_error(fmt::format("cannot read the folder {}: {}", folder, error.message()));
  if (files == 0) {
    throw std::runtime_error(fmt::format(
        "no event file (*.jsonl) in {}: run the job with MEGASCALE_EVENTS={}/rank-%r.jsonl", folder, folder));
  }
  Report report = digest(lines);
  report.files = files;
  return report;
}

std::string tables(const Report& report) {
  std::string result;
  Totals totals = totals_of(report);
  if (!report.flaps.empty() || !report.incidents.empty()) result += flap_table(report) + "\n";
  if (!report.rails.empty()) result += rail_table(report) + "\n";
  result += fmt::format(
      "{} flaps; {} recoveries, the longest after {:.0f} ms; {} replayed; {} returns to the home rail; {} "
      "failed connections\n",
      report.flaps.size(), totals.recovered, totals.longest_ms, short_size_text(totals.replayed_bytes),
      report.returns, report.failed_connections);
  if (report.malformed)
    result +=
        fmt::format("({} of {} lines were no events and were passed over)\n", report.malformed, report.lines);
  return result;
}

nlohmann::ordered_json as_json(const Report& report) {
  Json flaps = Json::array(), rails = Json::array(), incidents = Json::array();
  for (const Flap& f : report.flaps) {
    flaps.push_back({{"at_s", f.at},
                     {"rank", f.rank},
                     {"connection", f.connection},
                     {"direction", f.direction},
                     {"peer", f.peer},
                     {"rail", f.rail},
                     {"cause", f.cause},
                     {"recovered", f.recovered},
                     {"with_next", f.with_next},
                     {"onto", f.onto},
                     {"fenced", f.fenced},
                     {"replayed_chunks", f.replayed_chunks},
                     {"replayed_bytes", f.replayed_bytes},
                     {"stalled_ms", f.stalled_ms}});
  }
  for (const auto& [name, r] : report.rails) {
    rails.push_back({{"rail", name},
                     {"processes", r.processes},
                     {"bytes_sent", r.bytes_sent},
                     {"bytes_received", r.bytes_received},
                     {"rtt_us", r.rtt_samples ? Json(r.rtt_us_sum / r.rtt_samples) : Json()},
                     {"retransmissions", r.retransmissions},
                     {"flaps", r.flaps},
                     {"fenced", r.fenced},
                     {"replayed_bytes", r.replayed_bytes},
                     {"lost_ms", r.lost_ms}});
  }
  for (const Incident& i : report.incidents) incidents.push_back({{"at_s", i.at}, {"what", i.sentence}});
  Totals totals = totals_of(report);
  return {{"schema_version", 1},
          {"flaps", flaps},
          {"rails", rails},
          {"incidents", incidents},
          {"files", report.files},
          {"lines", report.lines},
          {"malformed", report.malformed},
          {"recovered", totals.recovered},
          {"longest_stall_ms", totals.longest_ms},
          {"replayed_bytes", totals.replayed_bytes},
          {"returns", report.returns},
          {"failed_connections", report.failed_connections}};
}

}  // namespace megascale::lab
