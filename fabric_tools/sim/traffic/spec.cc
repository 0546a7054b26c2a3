#include "fabric_tools/sim/traffic/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "fabric_tools/list.h"
#include "transport/base/quantity.h"

namespace megascale::sim {

Spec::Spec(std::string_view text) : text_(text) {
  const auto parts = split(text, ':');
  kind_ = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t sign = parts[i].find('=');
    if (sign == std::string::npos) values_.push_back(parts[i]);
    else if (!named_.emplace(parts[i].substr(0, sign), parts[i].substr(sign + 1)).second)
      refuse(fmt::format("`{}' is given twice", parts[i].substr(0, sign)));
  }
}

void Spec::refuse(const std::string& why) const {
  throw std::invalid_argument(fmt::format("traffic `{}': {}", text_, why));
}

std::optional<std::string> Spec::take(std::string_view name) {
  asked_.emplace_back(name);
  if (const auto found = named_.find(name); found != named_.end()) return found->second;
  if (next_ < values_.size()) return values_[next_++];
  return {};
}

std::string Spec::need(std::string_view name) {
  if (auto value = take(name); value && !value->empty()) return *value;
  refuse(fmt::format("its `{}' is missing", name));
}

Bytes Spec::bytes(std::string_view name, std::optional<Bytes> fallback) {
  const auto text = fallback ? take(name) : need(name);
  if (!text) return *fallback;
  const auto value = parse_size(*text);
  if (!value || *value < 1 || *value > 1'000'000'000'000)
    refuse(fmt::format("`{}' cannot be `{}': it takes bytes, 1 to 1TB, as 2MB or 64KiB", name, *text));
  return *value;
}

uint32_t Spec::count(std::string_view name, uint32_t least, uint32_t most, std::optional<uint32_t> fallback) {
  const auto text = fallback ? take(name) : need(name);
  if (!text) return *fallback;
  const auto value = parse_number(*text);
  if (!value || *value < least || *value > most ||
      *value != static_cast<double>(static_cast<uint32_t>(*value)))
    refuse(fmt::format("`{}' cannot be `{}': it takes a whole number, {} to {}", name, *text, least, most));
  return static_cast<uint32_t>(*value);
}

double Spec::share(std::string_view name, std::optional<double> fallback) {
  const auto text = fallback ? take(name) : need(name);
  if (!text) return *fallback;
  const auto value = parse_number(*text);
  if (!value || !(*value > 0 && *value <= 1))
    refuse(fmt::format("`{}' cannot be `{}': it takes a number above 0, at most 1", name, *text));
  return *value;
}

Duration Spec::time(std::string_view name, std::optional<Duration> fallback) {
  const auto text = fallback ? take(name) : need(name);
  if (!text) return *fallback;
  const auto value = parse_duration(*text);
  if (!value || *value > 1h)
    refuse(fmt::format("`{}' cannot be `{}': it takes a time, as 20us", name, *text));
  return *value;
}

Duration Spec::start() {
  if (!named_.contains("at")) return Duration(0);
  return time("at");
}

std::string Spec::word(std::string_view name, std::optional<std::string> fallback) {
  const auto text = fallback ? take(name) : need(name);
  return text ? *text : *fallback;
}

void Spec::done() const {
  for (const auto& [name, value] : named_) {
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end())
      refuse(fmt::format("it knows no `{}'; it takes {}", name, fmt::join(asked_, ", ")));
  }
  if (next_ < values_.size())
    refuse(fmt::format("`{}' is too much; it takes {}", values_[next_], fmt::join(asked_, ", ")));
}

}  // namespace megascale::sim
