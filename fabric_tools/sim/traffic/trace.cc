#include "fabric_tools/sim/traffic/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

#include "fabric_tools/memory.h"
#include "fabric_tools/sim/traffic/nic_names.h"
#include "transport/base/quantity.h"

namespace megascale::sim {

// Reads the lines, then ties the messages together: an id may be used before its line.
class TraceReader {
 public:
  TraceReader(const std::string& source, const Topology& topology) : source_(source), nics_(topology) {}

  void read_line(const std::string& line);
  std::unique_ptr<Trace> finish();

 private:
  using Json = nlohmann::json;

  [[noreturn]] void refuse(const std::string& why) const { refuse_at(line_, why); }
  [[noreturn]] void refuse_at(size_t line, const std::string& why) const {
    throw std::invalid_argument(fmt::format("trace {}, line {}: {}", source_, line, why));
  }

  const Json& need(const Json& object, const char* name) const {
    if (!object.contains(name)) refuse(fmt::format("`{}' is missing", name));
    return object[name];
  }
  std::string id_of(const Json& value) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_integer()) return value.dump();
    refuse(fmt::format("an id is a whole number or a text, not {}", value.dump()));
  }
  uint32_t nic_of(const Json& value) {
    const auto nic = nics_.find(value.is_string() ? value.get<std::string>() : value.dump());
    if (!nic) refuse(fmt::format("the topology has no NIC {}; it has {}", value.dump(), nics_.all()));
    return *nic;
  }
  Bytes bytes_of(const Json& value) const {
    const auto bytes = parse_size(value.is_string() ? value.get<std::string>() : value.dump());
    if (!bytes || *bytes < 1) refuse(fmt::format("`bytes' cannot be {}: 1 or more", value.dump()));
    return *bytes;
  }
  Duration time_of(const Json& object, const char* name) const {
    if (!object.contains(name)) return Duration(0);
    const Json& value = object[name];
    const auto time = parse_duration(value.is_string() ? value.get<std::string>() : value.dump());
    if (!time || *time > 24h)
      refuse(fmt::format("`{}' cannot be {}: seconds, or a text as \"5us\"", name, value.dump()));
    return *time;
  }

  uint32_t pair_of(uint32_t source, uint32_t destination);
  void tie();
  void find_circle() const;

  std::string source_;
  NicNames nics_;
  size_t line_ = 0;
  std::unique_ptr<Trace> trace_{new Trace};
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<std::pair<uint32_t, std::string>> after_;  // message, and the id that it waits for
  std::vector<size_t> lines_;
  std::unordered_map<uint64_t, uint32_t> pairs_;
};

uint32_t TraceReader::pair_of(uint32_t source, uint32_t destination) {
  const auto [entry, fresh] =
      pairs_.emplace(uint64_t{source} << 32 | destination, static_cast<uint32_t>(trace_->pairs_.size()));
  if (fresh) trace_->pairs_.push_back({source, destination});
  return entry->second;
}

void TraceReader::read_line(const std::string& line) {
  ++line_;
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  // Deeper than a list in an object is left out: it is nothing we know, and dump() would recurse.
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) { return depth <= 2; };
  const Json object = Json::parse(line, shallow, false);
  if (!object.is_object()) refuse("is no JSON object");
  for (const auto& [name, value] : object.items()) {
    static constexpr std::string_view kKnown[] = {"id",   "source", "destination", "bytes",
                                                  "time", "after",  "delay"};
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      refuse(fmt::format("`{}' is none of {}", name, fmt::join(kKnown, ", ")));
  }
  const auto index = static_cast<uint32_t>(trace_->messages_.size());
  const std::string id = id_of(need(object, "id"));
  if (const auto [other, fresh] = ids_.emplace(id, index); !fresh)
    refuse(fmt::format("the id {} is already that of line {}", id, lines_[other->second]));
  names_.push_back(id);
  lines_.push_back(line_);

  Trace::Message message;
  const uint32_t source = nic_of(need(object, "source")), destination = nic_of(need(object, "destination"));
  if (source == destination) refuse(fmt::format("message {} goes from a NIC to itself", id));
  message.pair = pair_of(source, destination);
  message.bytes = bytes_of(need(object, "bytes"));
  message.time = time_of(object, "time");
  message.delay = time_of(object, "delay");
  if (object.contains("after")) {
    if (!object["after"].is_array()) refuse("`after' is a list of ids");
    for (const Json& other : object["after"]) after_.emplace_back(index, id_of(other));
  }
  trace_->messages_.push_back(message);
}

void TraceReader::tie() {
  auto& messages = trace_->messages_;
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // the one that goes first, the one that waits
  for (const auto& [message, id] : after_) {
    const auto leader = ids_.find(id);
    if (leader == ids_.end())
      refuse_at(lines_[message],
                fmt::format("message {} waits for {}, which nobody has", names_[message], id));
    edges.emplace_back(leader->second, message);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  size_t at = 0;
  for (uint32_t i = 0; i < messages.size(); ++i) {
    messages[i].first_follower = static_cast<uint32_t>(at);
    for (; at < edges.size() && edges[at].first == i; ++at) {
      trace_->followers_.push_back(edges[at].second);
      ++messages[edges[at].second].waits_for;
    }
  }
  messages.push_back({.first_follower = static_cast<uint32_t>(at)});  // the end of the last one's
}

// Takes away, one by one, what waits for nothing; if something is left, a circle is in it.
void TraceReader::find_circle() const {
  const auto& messages = trace_->messages_;
  const size_t n = messages.size() - 1;
  std::vector<uint32_t> waits(n), ready;
  for (uint32_t i = 0; i < n; ++i) {
    waits[i] = messages[i].waits_for;
    if (waits[i] == 0) ready.push_back(i);
  }
  std::vector<uint32_t> leader(n, UINT32_MAX);  // somebody who is left, for whom it waits
  size_t taken = 0;
  while (!ready.empty()) {
    const uint32_t i = ready.back();
    ready.pop_back();
    ++taken;
    for (uint32_t f = messages[i].first_follower; f < messages[i + 1].first_follower; ++f)
      if (--waits[trace_->followers_[f]] == 0) ready.push_back(trace_->followers_[f]);
  }
  if (taken == n) return;
  uint32_t at = UINT32_MAX;
  for (uint32_t i = 0; i < n; ++i) {
    if (waits[i] == 0) continue;
    for (uint32_t f = messages[i].first_follower; f < messages[i + 1].first_follower; ++f)
      leader[trace_->followers_[f]] = i;
    at = i;
  }
  for (size_t i = 0; i < n; ++i) at = leader[at];  // by now it is on the circle
  std::vector<std::string> circle;
  const uint32_t start = at;
  do {
    circle.push_back(names_[at]);
    at = leader[at];
  } while (at != start && circle.size() < 8);
  refuse_at(lines_[start],
            fmt::format("message {} waits for itself: {} waits for {}{}", names_[start], circle[0],
                        circle.size() > 1
                            ? fmt::format("{}", fmt::join(circle.begin() + 1, circle.end(), ", that for "))
                            : circle[0],
                        circle.size() == 1 ? ""
                        : at == start      ? ", that for " + circle[0]
                                           : ", and so on"));
}

std::unique_ptr<Trace> TraceReader::finish() {
  if (trace_->messages_.empty())
    throw std::invalid_argument(fmt::format("trace {}: it has no message", source_));
  tie();
  find_circle();
  return std::move(trace_);
}

std::unique_ptr<Trace> Trace::read(std::istream& in, const std::string& source, const Topology& topology) {
  TraceReader reader(source, topology);
  for (std::string line; std::getline(in, line);) reader.read_line(line);
  if (in.bad()) throw std::runtime_error(fmt::format("trace {} cannot be read to its end", source));
  return reader.finish();
}

std::unique_ptr<Trace> Trace::read(const std::string& path, const Topology& topology) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("trace {} cannot be read: {}", path, why));
  };
  std::ifstream file(path);
  if (!file) refuse(std::strerror(errno));
  if (!std::filesystem::is_regular_file(path)) refuse("it is no file, and is read more than once");
  // Each line becomes about as much in memory, thrice while it is read.
  const auto size = std::filesystem::file_size(path);
  if (size > available_memory() / 3)
    refuse(fmt::format("its {} MB need more memory than there is; cut it into pieces", size / 1'000'000));
  return read(file, path, topology);
}

void Trace::begin(Wire& wire) {
  for (uint32_t i = 0; i < count(); ++i)
    if (messages_[i].waits_for == 0) start(wire, i, Time{});
}

// A message whose time has not come waits for a clock, not in its connection, where others would wait behind.
void Trace::start(Wire& wire, uint32_t index, Time now) {
  const Message& message = messages_[index];
  const Time at = std::max(Time(message.time), now + message.delay);
  if (at > now) wire.wake(at, index);
  else post(wire, index);
}

void Trace::post(Wire& wire, uint32_t index) {
  Pair& pair = pairs_[messages_[index].pair];
  if (!pair.connected) pair.connection = wire.connect(pair.source, pair.destination);
  pair.connected = true;
  wire.post(pair.connection, messages_[index].bytes, index, Time{});
}

void Trace::woken(Wire& wire, uint64_t tag, Time) { post(wire, static_cast<uint32_t>(tag)); }

void Trace::delivered(Wire& wire, const Delivery& delivery) {
  ++done_;
  const auto index = static_cast<uint32_t>(delivery.tag);
  for (uint32_t f = messages_[index].first_follower; f < messages_[index + 1].first_follower; ++f) {
    const uint32_t follower = followers_[f];
    if (--messages_[follower].waits_for == 0) start(wire, follower, delivery.at);
  }
}

}  // namespace megascale::sim
