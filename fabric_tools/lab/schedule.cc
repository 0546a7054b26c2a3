#include "fabric_tools/lab/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "fabric_tools/file.h"
#include "fabric_tools/toml_fields.h"

namespace megascale::lab {
namespace {

constexpr std::array<std::pair<FaultKind, std::string_view>, 6> kNames{
    {{FaultKind::drop, "drop"},
     {FaultKind::down, "down"},
     {FaultKind::address, "address"},
     {FaultKind::kill, "kill"},
     {FaultKind::blackhole_host, "blackhole_host"},
     {FaultKind::sigkill, "sigkill"}}};
constexpr double kLongest = 86400;  // seconds: a day

class Reader : public TomlFields {
 public:
  using TomlFields::TomlFields;

  std::optional<Duration> time(std::string_view key, double least = 0) const {
    const toml::node* node = find(key, false);
    if (!node) return std::nullopt;
    std::optional<double> value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !(*value >= least) || *value > kLongest) {
      fail(*node, fmt::format("`{}` must be a number of seconds, {} to {}", key, least, kLongest));
    }
    return from_seconds(*value);
  }

  std::string path(std::string_view key) const {
    const toml::node* node = find(key, false);
    if (!node) return {};
    if (!node->is_string()) fail(*node, fmt::format("`{}` must be a string", key));
    return node->value_or(std::string());
  }

  // A whole number, or an array of them, each below `limit`; absent: all.
  std::vector<int> indices(std::string_view key, int limit) const {
    std::vector<int> result;
    const toml::node* node = find(key, false);
    if (!node) {
      for (int i = 0; i < limit; ++i) result.push_back(i);
      return result;
    }
    if (const toml::array* array = node->as_array()) {
      for (const toml::node& element : *array) result.push_back(index(element, key, limit));
    } else {
      result.push_back(index(*node, key, limit));
    }
    if (result.empty()) fail(*node, fmt::format("`{}` is empty; leave it out to mean all", key));
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  int one_index(std::string_view key, int limit) const { return index(needed(key), key, limit); }

  FaultKind kind(const toml::node& node) const {
    std::string word = node.value_or(std::string());
    for (const auto& [kind, name] : kNames) {
      if (word == name) return kind;
    }
    fail(node, fmt::format("a fault's kind is drop, down, address, kill, blackhole_host or sigkill, not `{}`",
                           word));
  }

  const toml::node& needed(std::string_view key) const { return *find(key, true); }

 private:
  int index(const toml::node& node, std::string_view key, int limit) const {
    std::optional<int64_t> value = node.is_integer() ? node.value<int64_t>() : std::nullopt;
    if (!value || *value < 0 || *value >= limit) {
      fail(node, fmt::format("`{}` must be 0 to {} in this fabric", key, limit - 1));
    }
    return static_cast<int>(*value);
  }
};

bool of_an_instant(FaultKind kind) { return kind == FaultKind::kill || kind == FaultKind::sigkill; }

Fault read_fault(const toml::table& table, const std::string& source, const Shape& shape) {
  Reader reader(table, source, "[[fault]]", {"kind", "hosts", "rails", "rank", "at", "for", "after_file"});
  Fault fault;
  fault.kind = reader.kind(reader.needed("kind"));
  fault.at = reader.time("at").value_or(0s);
  fault.lasts = reader.time("for", 0.001);
  fault.after_file = reader.path("after_file");
  if (of_an_instant(fault.kind) && fault.lasts) {
    reader.fail(reader.needed("for"),
                fmt::format("`{}` happens at one instant: it takes no `for`", name_of(fault.kind)));
  }
  if (fault.kind == FaultKind::sigkill) {
    for (std::string_view key : {"hosts", "rails"}) {
      if (reader.has(key))
        reader.fail(reader.needed(key), fmt::format("`sigkill` takes `rank`, not `{}`", key));
    }
    fault.rank = reader.one_index("rank", shape.ranks);
    return fault;
  }
  if (reader.has("rank")) reader.fail(reader.needed("rank"), "only `sigkill` takes `rank`");
  if (fault.kind == FaultKind::blackhole_host) reader.needed("hosts");
  if (fault.kind == FaultKind::blackhole_host && reader.has("rails")) {
    reader.fail(reader.needed("rails"),
                "`blackhole_host` takes all rails of a host; use `drop` for some of them");
  }
  fault.hosts = reader.indices("hosts", shape.hosts);
  fault.rails = reader.indices("rails", shape.rails);
  return fault;
}

Rotation read_rotation(const toml::table& table, const std::string& source, const Shape& shape) {
  Reader reader(table, source, "[rotate]", {"every", "for", "kinds", "hosts", "rails", "at", "after_file"});
  Rotation rotation;
  rotation.at = reader.time("at").value_or(0s);
  rotation.every = reader.time("every", 0.05).value_or(1s);
  rotation.lasts = reader.time("for", 0.001).value_or(rotation.every / 2);
  rotation.after_file = reader.path("after_file");
  if (rotation.lasts >= rotation.every) reader.fail(table, "[rotate] needs `for` less than `every`");
  const toml::array* kinds = reader.needed("kinds").as_array();
  if (!kinds || kinds->empty())
    reader.fail(reader.needed("kinds"), "`kinds` must be an array of kinds of faults");
  for (const toml::node& node : *kinds) {
    FaultKind kind = reader.kind(node);
    if (kind == FaultKind::sigkill || kind == FaultKind::blackhole_host) {
      reader.fail(node, fmt::format("`{}` cannot be undone, so it cannot take turns", name_of(kind)));
    }
    rotation.kinds.push_back(kind);
  }
  rotation.hosts = reader.indices("hosts", shape.hosts);
  rotation.rails = reader.indices("rails", shape.rails);
  return rotation;
}

}  // namespace

std::string_view name_of(FaultKind kind) {
  for (const auto& [each, name] : kNames) {
    if (each == kind) return name;
  }
  return "?";
}

Schedule parse_schedule(std::string_view text, const std::string& source, const Shape& shape,
                        const std::string& after_file) {
  ParsedToml parsed = parse_toml(text);
  if (!parsed.table) {
    throw std::invalid_argument(fmt::format("{}:{}: {}", source, parsed.line, parsed.description));
  }
  const toml::table& document = *parsed.table;
  Reader reader(document, source, "a schedule of faults", {"after_file", "fault", "rotate"});
  std::string base = after_file.empty() ? reader.path("after_file") : after_file;
  Schedule schedule;
  if (const toml::array* faults = reader.tables("fault")) {
    for (const toml::node& element : *faults) {
      schedule.faults.push_back(read_fault(*element.as_table(), source, shape));
      if (schedule.faults.back().after_file.empty()) schedule.faults.back().after_file = base;
    }
  }
  if (reader.has("rotate")) {
    schedule.rotation = read_rotation(reader.table("rotate"), source, shape);
    if (schedule.rotation->after_file.empty()) schedule.rotation->after_file = base;
  }
  if (schedule.faults.empty() && !schedule.rotation) {
    throw std::invalid_argument(
        source + ":1: holds neither a [[fault]] nor a [rotate]; say --faults none to have none");
  }
  return schedule;
}

Schedule read_schedule(const std::string& file, const Shape& shape, const std::string& after_file) {
  const std::string text = read_file("the schedule of faults", file, 1 << 20);
  return parse_schedule(text, file, shape, after_file);
}

Timeline::Timeline(const Schedule& schedule) : rotation_(schedule.rotation), listed_(schedule.faults.size()) {
  for (const Fault& fault : schedule.faults) {
    if (fault.after_file.empty()) {
      add(0s, fault);
    } else {
      waiting_.push_back(fault);
    }
  }
  if (!rotation_) return;
  rotation_waits_ = !rotation_->after_file.empty();
  if (!rotation_waits_) add_turn(rotation_->at);
}

std::vector<std::string> Timeline::awaited_files() const {
  std::vector<std::string> files;
  for (const Fault& fault : waiting_) files.push_back(fault.after_file);
  if (rotation_waits_) files.push_back(rotation_->after_file);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

void Timeline::file_appeared(const std::string& file, Duration now) {
  std::vector<Fault> still;
  for (const Fault& fault : std::exchange(waiting_, {})) {
    if (fault.after_file == file) {
      add(now, fault);
    } else {
      still.push_back(fault);
    }
  }
  waiting_ = std::move(still);
  if (rotation_waits_ && rotation_->after_file == file) {
    rotation_waits_ = false;
    add_turn(now + rotation_->at);
  }
}

void Timeline::add(Duration base, const Fault& fault, bool rotating) {
  int id = next_id_++;
  if (rotating) turn_id_ = id;
  entries_.push({base + fault.at, next_order_++, {id, true, rotating, fault}});
  if (fault.lasts)
    entries_.push({base + fault.at + *fault.lasts, next_order_++, {id, false, rotating, fault}});
}

// Rails change fastest, so that `n` turns of any kind meet every rail.
void Timeline::add_turn(Duration due) {
  size_t turn = static_cast<size_t>(turn_++);
  Fault fault;
  fault.kind = rotation_->kinds[turn / rotation_->rails.size() % rotation_->kinds.size()];
  fault.hosts = rotation_->hosts;
  fault.rails = {rotation_->rails[turn % rotation_->rails.size()]};
  if (!of_an_instant(fault.kind)) fault.lasts = rotation_->lasts;
  add(due, fault, true);
}

size_t Timeline::faults_to_come() const { return listed_ - begun_; }

std::optional<Duration> Timeline::next() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.top().due;
}

std::optional<Step> Timeline::pop_due(Duration now) {
  if (entries_.empty() || entries_.top().due > now) return std::nullopt;
  Entry entry = entries_.top();
  entries_.pop();
  if (entry.step.begin && !entry.step.rotating) ++begun_;
  // The next turn is counted from when this one was due: a slow `ip` does not stretch the rhythm. But what
  // a stopped machine missed is not made up for.
  if (entry.step.begin && entry.step.id == turn_id_) add_turn(std::max(entry.due + rotation_->every, now));
  return entry.step;
}

}  // namespace megascale::lab
