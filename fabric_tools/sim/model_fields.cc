#include "fabric_tools/sim/model_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "transport/base/quantity.h"

namespace megascale::sim {
namespace {

constexpr double kTerabyte = 1e12, kHour = 3600;

constexpr std::array<std::string_view, 4> kBalances = {"ecmp", "flowlet", "spray", "plb"};
constexpr std::array<std::string_view, 2> kRecoveries = {"go_back_n", "selective"};

// The accessor of a member, whatever its type.
// NOLINTNEXTLINE(bugprone-macro-parentheses): `member` may have dots
#define AT(member) +[](Model& m) -> decltype((m.member)) { return m.member; }

constexpr Field kFields[] = {
    {"switches.buffer", AT(switches.buffer), 1e4, kTerabyte, "memory that all ports of a switch share"},
    {"switches.alpha_lossy", AT(switches.alpha_lossy), 1e-6, 1e6,
     "without PFC an egress queue drops above this times the free memory"},
    {"switches.latency", AT(switches.latency), 0, 1, "of a switch, besides serialisation and queue"},
    {"switches.balance", AT(switches.balance), 0, 0, "how a switch chooses among equal links"},
    {"switches.flowlet_gap", AT(switches.flowlet_gap), 0, kHour, "silence after which a flow may move"},
    {"switches.reroute", AT(switches.reroute), 0, kHour,
     "from the end of a link until hashes leave it out, and from its return until they use it"},
    {"switches.telemetry", AT(switches.telemetry), 0, 0, "stamp packets of controllers that want it"},
    {"switches.ecn.on", AT(switches.ecn.on), 0, 0, "mark packets"},
    {"switches.ecn.kmin", AT(switches.ecn.kmin), 0, kTerabyte, "no mark up to this queue"},
    {"switches.ecn.kmax", AT(switches.ecn.kmax), 0, kTerabyte, "every packet is marked above this queue"},
    {"switches.ecn.pmax", AT(switches.ecn.pmax), 0, 1, "share of packets that is marked just below kmax"},
    {"switches.ecn.at", AT(switches.ecn.at), 1e6, 1e13, "rate for which kmin and kmax hold; others scale"},
    {"switches.ecn.on_dequeue", AT(switches.ecn.on_dequeue), 0, 0,
     "judge by the queue that a packet leaves behind, not by the one it meets"},
    {"switches.pfc.on", AT(switches.pfc.on), 0, 0, "pause the neighbour instead of dropping"},
    {"switches.pfc.alpha", AT(switches.pfc.alpha), 1e-6, 1e6,
     "a port pauses above this times the free memory"},
    {"switches.pfc.headroom", AT(switches.pfc.headroom), 0, kTerabyte, "for each port; 0: as calculated"},
    {"switches.pfc.hysteresis", AT(switches.pfc.hysteresis), 0, kTerabyte,
     "a pause ends when the queue is so far below its threshold"},
    {"switches.pfc.watchdog", AT(switches.pfc.watchdog), 0, kHour,
     "a queue that is paused for longer drops until it is let go; 0: never"},
    {"switches.pfc.unsafe_headroom", AT(switches.pfc.unsafe_headroom), 0, 0,
     "take the headroom even where packets can be lost"},
    {"hosts.payload", AT(hosts.payload), 64, 65000, "of a full packet"},
    {"hosts.header", AT(hosts.header), 1, 500, "of every packet, on the wire besides the payload"},
    {"hosts.ack", AT(hosts.ack), 1, 4096, "wire size of acknowledgements and CNPs"},
    {"hosts.ack_every", AT(hosts.ack_every), 1, 1e6, "packets that one acknowledgement covers"},
    {"hosts.delay", AT(hosts.delay), 0, 1, "from the arrival of a packet to its acknowledgement"},
    {"hosts.jitter", AT(hosts.jitter), 0, 1, "mean of an exponential delay of each acknowledgement"},
    {"hosts.jitter_in_order", AT(hosts.jitter_in_order), 0, 0,
     "a late acknowledgement holds up those behind it"},
    {"hosts.remote_hold", AT(hosts.remote_hold), 0, 0, "acknowledgements tell the receiver's own delay"},
    {"hosts.cnp", AT(hosts.cnp), 0, 0, "congestion comes as CNPs, not on acknowledgements"},
    {"hosts.cnp_interval", AT(hosts.cnp_interval), 0, 1, "least time between two CNPs of a connection"},
    {"hosts.cnp_delay", AT(hosts.cnp_delay), 0, 1, "from the marked packet to the CNP"},
    {"hosts.recovery", AT(hosts.recovery), 0, 0, "of lost packets"},
    {"hosts.least_timeout", AT(hosts.least_timeout), 1e-6, kHour,
     "a packet is sent again after this or 4 smoothed RTTs, whichever is longer"},
    {"hosts.fixed_timeout", AT(hosts.fixed_timeout), 1e-6, kHour, "instead, always this"},
    {"hosts.rtt_bias", AT(hosts.rtt_bias), -1, 1, "added to the base RTT that controllers are told"},
    {"hosts.admission", AT(hosts.admission), 0, kTerabyte,
     "bytes that a receiver grants at once to all its senders; 0: senders do not ask"},
    {"hosts.plb_rounds", AT(hosts.plb_rounds), 1, 1e6, "congested rounds after which PLB moves a flow"},
    {"hosts.plb_idle_rounds", AT(hosts.plb_idle_rounds), 1, 1e6, "the same, while the flow is idle"},
};
#undef AT

[[noreturn]] void refuse(const Field& field, std::string_view value) {
  throw std::invalid_argument(
      fmt::format("{} cannot be `{}': it takes {}", field.name, value, accepted(field)));
}

template <size_t N>
std::string one_of(const std::array<std::string_view, N>& words) {
  return fmt::format("one of {}", fmt::join(words, ", "));
}

template <typename Enum, size_t N>
std::optional<Enum> choice(const std::array<std::string_view, N>& words, std::string_view value) {
  const auto found = std::find(words.begin(), words.end(), value);
  if (found == words.end()) return {};
  return static_cast<Enum>(found - words.begin());
}

std::optional<bool> parse_switch(std::string_view value) {
  if (value == "on" || value == "true" || value == "1") return true;
  if (value == "off" || value == "false" || value == "0") return false;
  return {};
}

// A field may be below zero (a bias); the quantities of the rest of the project may not.
std::optional<Duration> parse_signed_duration(std::string_view value) {
  const bool negative = value.starts_with('-');
  const auto size = parse_duration(value.substr(negative ? 1 : 0));
  if (!size) return {};
  return negative ? -*size : *size;
}

struct Parse {  // nothing: malformed
  std::string_view text;

  std::optional<bool> operator()(bool*) const { return parse_switch(text); }
  std::optional<double> operator()(double*) const { return parse_number(text); }
  std::optional<Bytes> operator()(Bytes*) const { return parse_size(text); }
  std::optional<Duration> operator()(Duration*) const { return parse_signed_duration(text); }
  std::optional<Rate> operator()(Rate*) const { return parse_rate(text); }
  std::optional<Balance> operator()(Balance*) const { return choice<Balance>(kBalances, text); }
  std::optional<Recovery> operator()(Recovery*) const { return choice<Recovery>(kRecoveries, text); }
  std::optional<std::optional<Duration>> operator()(std::optional<Duration>*) const {
    const auto value = parse_duration(text);
    if (!value) return {};
    return std::optional<Duration>(value);
  }
  std::optional<uint32_t> operator()(uint32_t*) const {
    const auto value = parse_number(text);
    if (!value || *value < 0 || *value > 4e9 || *value != static_cast<double>(static_cast<uint32_t>(*value)))
      return {};
    return static_cast<uint32_t>(*value);
  }
};

struct Measure {  // what is compared with the field's range
  double operator()(double v) const { return v; }
  double operator()(Bytes v) const { return static_cast<double>(v); }
  double operator()(uint32_t v) const { return v; }
  double operator()(Duration v) const { return seconds(v); }
  double operator()(Rate v) const { return v.bits_per_second; }
  double operator()(const std::optional<Duration>& v) const { return v ? seconds(*v) : 0; }
  double operator()(bool) const { return 0; }
  double operator()(Balance) const { return 0; }
  double operator()(Recovery) const { return 0; }
};

template <typename T>
bool in_range(const Field& field, const T& value) {
  if constexpr (std::is_same_v<T, std::optional<Duration>>) {
    if (!value) return true;
  }
  const double measure = Measure()(value);
  return field.least >= field.most || (measure >= field.least && measure <= field.most);
}

struct Print {
  std::string operator()(bool v) const { return v ? "on" : "off"; }
  std::string operator()(double v) const { return fmt::format("{}", v); }
  std::string operator()(uint32_t v) const { return fmt::format("{}", v); }
  std::string operator()(Duration v) const { return v < Duration(0) ? "-" + text_of(-v) : text_of(v); }
  std::string operator()(Rate v) const { return text_of(v); }
  std::string operator()(const std::optional<Duration>& v) const { return v ? text_of(*v) : ""; }
  std::string operator()(Balance v) const { return std::string(kBalances[static_cast<size_t>(v)]); }
  std::string operator()(Recovery v) const { return std::string(kRecoveries[static_cast<size_t>(v)]); }
  std::string operator()(Bytes v) const {
    if (v >= 1'000'000 && v % 1'000'000 == 0) return fmt::format("{}MB", v / 1'000'000);
    if (v >= 1'000 && v % 1'000 == 0) return fmt::format("{}KB", v / 1'000);
    return fmt::format("{}", v);
  }
};

const Field& field_named(std::string_view name) {
  std::vector<std::string_view> like;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (const Field& field : fields()) {
    if (field.name == name) return field;
    if (field.name.substr(field.name.rfind('.') + 1) == last || field.name.starts_with(name))
      like.push_back(field.name);
  }
  throw std::invalid_argument(
      like.empty()
          ? fmt::format("there is no `{}' to set; `megascale-fabric sim --fields' lists what there is", name)
          : fmt::format("there is no `{}' to set; did you mean {}?", name, fmt::join(like, ", ")));
}

template <typename T>
std::string bound(double value) {
  if constexpr (std::is_same_v<T, Bytes>) return Print()(static_cast<Bytes>(value));
  else if constexpr (std::is_same_v<T, Duration> || std::is_same_v<T, std::optional<Duration>>)
    return Print()(from_seconds(value));
  else if constexpr (std::is_same_v<T, Rate>) return Print()(Rate{value});
  else return fmt::format("{}", value);
}

template <typename T>
constexpr std::string_view example() {
  if constexpr (std::is_same_v<T, Bytes>) return "bytes";
  else if constexpr (std::is_same_v<T, Duration> || std::is_same_v<T, std::optional<Duration>>)
    return "a time";
  else if constexpr (std::is_same_v<T, Rate>) return "a rate";
  else if constexpr (std::is_same_v<T, uint32_t>) return "a whole number";
  else return "a number";
}

}  // namespace

std::span<const Field> fields() { return kFields; }

void set_field(Model& model, std::string_view name, std::string_view value) {
  const Field& field = field_named(name);
  std::visit(
      [&](auto access) {
        auto& target = access(model);
        const auto parsed = Parse{value}(&target);
        if (!parsed) refuse(field, value);
        if (!in_range(field, *parsed)) refuse(field, value);
        target = *parsed;
      },
      field.access);
}

void check_fields(const Model& model) {
  Model copy = model;  // the accessors give references that can be written
  for (const Field& field : fields()) {
    const bool fits = std::visit([&](auto access) { return in_range(field, access(copy)); }, field.access);
    if (!fits) refuse(field, value_of(field, model));
  }
}

std::string accepted(const Field& field) {
  return std::visit(
      [&](auto access) -> std::string {
        using T = std::remove_cvref_t<decltype(access(std::declval<Model&>()))>;
        if constexpr (std::is_same_v<T, bool>) return "on or off";
        else if constexpr (std::is_same_v<T, Balance>) return one_of(kBalances);
        else if constexpr (std::is_same_v<T, Recovery>) return one_of(kRecoveries);
        else return fmt::format("{}, {} to {}", example<T>(), bound<T>(field.least), bound<T>(field.most));
      },
      field.access);
}

std::string value_of(const Field& field, const Model& model) {
  Model copy = model;  // the accessors give references that can be written
  return std::visit([&](auto access) { return Print()(access(copy)); }, field.access);
}

std::string describe_fields() {
  std::string text;
  const Model defaults;
  for (const Field& field : fields()) {
    const std::string value = value_of(field, defaults);
    text += fmt::format("  {:<30}{:<11}{}; {}\n", field.name, value.empty() ? "-" : value, field.sentence,
                        accepted(field));
  }
  return text;
}

nlohmann::ordered_json to_json(const Model& model) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const Model defaults;
  for (const Field& field : fields()) {
    const std::string value = value_of(field, model);
    if (value != value_of(field, defaults)) json[std::string(field.name)] = value;
  }
  nlohmann::ordered_json faults = nlohmann::ordered_json::array();
  for (const Fault& fault : model.faults) {
    nlohmann::ordered_json entry{{"at_s", seconds(fault.at)}, {"low", fault.low}, {"high", fault.high}};
    if (fault.lasts) entry["lasts_s"] = seconds(*fault.lasts);
    entry["rate"] = fault.rate;
    faults.push_back(entry);
  }
  if (!faults.empty()) json["faults"] = faults;
  return json;
}

}  // namespace megascale::sim
