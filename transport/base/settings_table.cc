#include "transport/base/settings_table.h"

#include <algorithm>
#include <numeric>

#include "transport/base/quantity.h"

namespace megascale {
namespace {

// Not <cctype>, whose answers depend on the locale that the process has chosen.
bool lower_case(char c) { return c >= 'a' && c <= 'z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool printable(char c) { return c >= ' ' && c <= '~'; }

bool tcp_algorithm_name(std::string_view text) {
  // TCP_CA_NAME_MAX is 16 with the closing zero.
  return !text.empty() && text.size() < 16 && std::all_of(text.begin(), text.end(), [](char c) {
    return lower_case(c) || digit(c) || c == '_' || c == '-';
  });
}

bool host_and_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const auto port = parse_number(text.substr(colon + 1));
  return port && *port >= 1 && *port <= 65535 && *port == static_cast<double>(static_cast<int>(*port));
}

using S = Settings;
constexpr Bytes operator""_K(unsigned long long n) { return n << 10; }
constexpr Bytes operator""_G(unsigned long long n) { return n << 30; }

// clang-format off
constexpr SettingRow kRows[] = {
    {"LINK", ChoiceKind{&S::link, "auto|tcp", "verbs|udp|dpdk"},
     "What carries the bytes of a rail; auto takes the best that this host has."},
    {"CC", ChoiceKind{&S::cc, "auto|fixed", "swift|dcqcn|timely|hpcc|nscc|barre|hybrid"},
     "Who decides a connection's rate: auto, on tcp the kernel; fixed: the rate of the file's [cc] table is its cap."},
    {"CONFIG", TextKind{&S::config, "a path"},
     "A TOML file that sets any of these in its [megascale] table; the environment wins.", "", false},
    {"RAILS", TextKind{&S::rails, "addresses, comma separated"},
     "One rail for each of these local addresses, in this order, instead of one for each interface."},
    {"INTERFACES", TextKind{&S::interfaces, "prefixes, comma separated; ^ before them excludes, = makes them exact"},
     "Which interfaces are rails.", "NCCL_SOCKET_IFNAME"},
    {"ADDRESS_FAMILY", ChoiceKind{&S::address_family, "AF_INET|AF_INET6"},
     "Use addresses of this family only.", "NCCL_SOCKET_FAMILY", true, "both"},
    {"SECRET", SecretKind{&S::secret},
     "The job's secret: peers that cannot prove that they know it are refused. It never travels and is never printed.",
     "", true, "none"},
    {"SECRET_FILE", TextKind{&S::secret_file, "the path of a file of at most 4096 bytes"},
     "Where the job's secret is, if not in MEGASCALE_SECRET; a closing newline does not count."},
    {"FLAP_TIMEOUT", DurationKind{&S::flap_timeout, 100ms, 24h},
     "How long a connection without any link is kept trying before its operations fail."},
    {"FLAP_DETECT", DurationKind{&S::flap_detect, 10ms, 60s},
     "Silence with data owed that counts as a flap."},
    {"CONNECT_TIMEOUT", DurationKind{&S::connect_timeout, 100ms, 24h},
     "How long the first connection to a peer may take."},
    {"RETURN_HOLD", DurationKind{&S::return_hold, 0ms, 1h},
     "How long a home rail must be well before traffic returns to it."},
    {"TCP_ALGORITHM", TextKind{&S::tcp_algorithm, "auto, or one of net.ipv4.tcp_allowed_congestion_control", tcp_algorithm_name},
     "The kernel's congestion control for our sockets; auto avoids those that slow large messages."},
    {"TCP_SEND_BUFFER", SizeKind{&S::tcp_send_buffer, 0, 1_G},
     "A socket's send buffer; 0 leaves it to us."},
    {"TCP_RECEIVE_BUFFER", SizeKind{&S::tcp_receive_buffer, 0, 1_G},
     "A socket's receive buffer; 0 leaves it to us."},
    {"RATE_LIMIT", RateKind{&S::rate_limit, {1e6}},
     "The most that one connection sends on one rail, in bits per second."},
    {"STRIPE", SwitchKind{&S::stripe, "home", "all"},
     "Whether a connection keeps to its home rail or spreads over all of them."},
    {"CHUNK", SizeKind{&S::chunk, 4_K, 1_G},
     "The smallest chunk of a striped message."},
    {"EVENTS", TextKind{&S::events, "a path; %p is the process id, %r the rank"},
     "A file to which events are appended, one JSON object a line."},
    {"SUMMARY", SwitchKind{&S::summary},
     "A compact table of what each rail did, on standard error at exit."},
    {"LOG", ChoiceKind{&S::log, "warn|info|trace"},
     "The most talkative lines that are logged."},
    {"RANK", NumberKind{&S::rank, 0, (1 << 24) - 1},
     "For our own programs: this process's place in the job.", "", false, "none"},
    {"RANKS", NumberKind{&S::ranks, 1, 1 << 24},
     "For our own programs: how many processes the job has.", "", false, "none"},
    {"LOCAL_RANK", NumberKind{&S::local_rank, 0, 65535},
     "For our own programs: this process's place on its host.", "", false, "none"},
    {"RENDEZVOUS", TextKind{&S::rendezvous, "host:port", host_and_port},
     "For our own programs: where rank 0 listens and the others find it.", "", false},
};
// clang-format on

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

std::vector<std::string_view> split(std::string_view words) {
  std::vector<std::string_view> all;
  while (!words.empty()) {
    const size_t bar = std::min(words.find('|'), words.size());
    all.push_back(words.substr(0, bar));
    words.remove_prefix(std::min(bar + 1, words.size()));
  }
  return all;
}

bool among(std::string_view word, const char* words) {
  const auto all = split(words);
  return std::find(all.begin(), all.end(), word) != all.end();
}

template <class T, class V>
bool set_in_range(T Settings::*target, std::optional<V> value, T least, T most, Settings& s) {
  if (!value || T(*value) < least || T(*value) > most) return false;
  s.*target = T(*value);
  return true;
}

std::optional<bool> parse_switch(const SwitchKind& k, std::string_view text) {
  if (text == k.off) return false;
  if (text == k.on) return true;
  if (std::string_view(k.on) != "1") return {};
  if (text == "false" || text == "off" || text == "no") return false;
  if (text == "true" || text == "on" || text == "yes") return true;
  return {};
}

std::optional<int> parse_int(std::string_view text) {
  const auto n = parse_number(text);
  if (!n || *n < -2e9 || *n > 2e9 || *n != static_cast<double>(static_cast<int>(*n))) return {};
  return static_cast<int>(*n);
}

// Whether the member was set.
bool set(const SettingKind& kind, std::string_view text, Settings& s) {
  return std::visit(
      Overload{
          [&](const TextKind& k) {
            if (k.ok && !k.ok(text)) return false;
            s.*k.target = text;
            return true;
          },
          [&](const ChoiceKind& k) {
            if (!among(text, k.words)) return false;
            s.*k.target = text;
            return true;
          },
          [&](const SwitchKind& k) {
            const auto value = parse_switch(k, text);
            if (value) s.*k.target = *value;
            return value.has_value();
          },
          [&](const DurationKind& k) {
            return set_in_range(k.target, parse_duration(text), k.least, k.most, s);
          },
          [&](const SizeKind& k) { return set_in_range(k.target, parse_size(text), k.least, k.most, s); },
          [&](const RateKind& k) {
            return set_in_range(k.target, parse_rate(text), k.least, Rate::unlimited(), s);
          },
          [&](const NumberKind& k) { return set_in_range(k.target, parse_int(text), k.least, k.most, s); },
          [&](const SecretKind& k) {
            s.*k.target = text;
            return true;
          }},
      kind);
}

size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string type_of(const SettingKind& kind) {
  static constexpr const char* kNames[] = {"text", "choice", "switch", "duration",
                                           "size", "rate",   "number", "secret"};
  static_assert(std::size(kNames) == std::variant_size_v<SettingKind>);
  return kNames[kind.index()];
}

std::string default_of(const SettingRow& row) {
  if (row.fallback) return row.fallback;
  const Settings s;
  return std::visit(Overload{[&](const TextKind& k) { return s.*k.target; },
                             [&](const ChoiceKind& k) { return s.*k.target; },
                             [&](const SwitchKind& k) { return std::string(s.*k.target ? k.on : k.off); },
                             [&](const DurationKind& k) { return text_of(s.*k.target); },
                             [&](const SizeKind& k) { return size_text(s.*k.target); },
                             [&](const RateKind& k) { return text_of(s.*k.target); },
                             [&](const NumberKind& k) { return std::to_string(s.*k.target); },
                             [&](const SecretKind&) { return std::string(); }},
                    row.kind);
}

std::vector<SettingDoc> make_docs() {
  std::vector<SettingDoc> docs;
  for (const SettingRow& row : kRows) {
    docs.push_back({variable_of(row), row.also, type_of(row.kind), default_of(row), accepted_by(row),
                    row.sentence, row.in_file ? key_of(row) : ""});
  }
  return docs;
}

}  // namespace

std::span<const SettingRow> setting_rows() { return kRows; }

std::string variable_of(const SettingRow& row) { return std::string("MEGASCALE_") + row.name; }

std::string key_of(const SettingRow& row) {
  std::string key = row.name;
  for (char& c : key) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return key;
}

std::string accepted_by(const SettingRow& row) {
  return std::visit(
      Overload{[](const TextKind& k) { return std::string(k.shape); },
               [](const ChoiceKind& k) { return std::string(k.words); },
               [](const SwitchKind& k) { return std::string(k.off) + "|" + k.on; },
               [](const DurationKind& k) { return text_of(k.least) + " to " + text_of(k.most); },
               [](const SizeKind& k) { return size_text(k.least) + " to " + size_text(k.most); },
               [](const RateKind& k) { return text_of(k.least) + " and more, or unlimited"; },
               [](const NumberKind& k) { return std::to_string(k.least) + " to " + std::to_string(k.most); },
               [](const SecretKind&) { return std::string("any text of at most 4096 bytes"); }},
      row.kind);
}

std::optional<std::string> apply(const SettingRow& row, std::string_view text, Settings& s,
                                 const std::string& where) {
  const bool secret = std::holds_alternative<SecretKind>(row.kind);
  if (text.size() <= 4096 && set(row.kind, text, s)) return {};
  if (secret) s.secret_unreadable = true;
  const std::string shown = secret ? where : where + "=" + quoted(text);
  const auto* choice = std::get_if<ChoiceKind>(&row.kind);
  if (choice && among(text, choice->unbuilt)) {
    return shown + " is not in this build; accepted: " + accepted_by(row) + ". Using " + s.*choice->target +
           ".";
  }
  return shown + " is not accepted; accepted: " + accepted_by(row) + ". It is ignored.";
}

std::string one_line(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) out += printable(c) ? c : '?';
  return text.size() > limit ? out + "..." : out;
}

std::string quoted(std::string_view text) { return one_line(text, 64).insert(0, 1, '\'').append(1, '\''); }

std::string did_you_mean(std::string_view unknown, std::span<const std::string> known) {
  unknown = unknown.substr(0, 64);
  const std::string* best = nullptr;
  size_t best_edits = 4;
  for (const std::string& name : known) {
    const size_t n = edits(unknown, name);
    if (n < best_edits) best = &name, best_edits = n;
  }
  return best ? " (did you mean " + *best + "?)" : "";
}

std::span<const SettingDoc> setting_docs() {
  static const std::vector<SettingDoc> docs = make_docs();
  return docs;
}

}  // namespace megascale
