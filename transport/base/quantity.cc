#include "transport/base/quantity.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <tuple>
#include <utility>

namespace megascale {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr Suffix kDurations[] = {{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                                 {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
constexpr Suffix kSizes[] = {{"K", 1024.}, {"M", 1048576.}, {"G", 1073741824.}, {"T", 1099511627776.}};
constexpr Suffix kOtherSizes[] = {{"B", 1.},    {"KB", 1e3},  {"MB", 1e6},     {"GB", 1e9},
                                  {"TB", 1e12}, {"k", 1024.}, {"m", 1048576.}, {"g", 1073741824.}};
constexpr Suffix kRates[] = {{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};

struct Scanned {
  double value;
  std::string_view rest;
};

// The number at the start. from_chars, since strtod asks the locale which sign is the decimal point.
std::optional<Scanned> scan(std::string_view text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return {};  // also keeps "inf", "nan" and "-1" out
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return {};
  return Scanned{value, text.substr(static_cast<size_t>(end - text.data()))};
}

template <size_t N>
std::optional<double> scale(const Scanned& s, const Suffix (&suffixes)[N], double bare) {
  if (s.rest.empty()) return s.value * bare;
  for (const Suffix& suffix : suffixes) {
    if (s.rest == suffix.text) return s.value * suffix.factor;
  }
  return {};
}

// The largest unit in which `value` is a whole number.
template <size_t N>
std::string print(double value, const Suffix (&suffixes)[N], const char* bare) {
  std::string_view unit = bare;
  double factor = 1;
  for (const Suffix& s : suffixes) {
    if (value != 0 && std::fmod(value, s.factor) == 0) std::tie(unit, factor) = std::pair(s.text, s.factor);
  }
  char text[64];
  snprintf(text, sizeof text, "%.15g%.*s", value / factor, static_cast<int>(unit.size()), unit.data());
  return text;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto s = scan(text.substr(negative ? 1 : 0));
  if (!s || !s->rest.empty()) return {};
  return negative ? -s->value : s->value;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto s = scan(text);
  const auto ns = s ? scale(*s, kDurations, 1e9) : std::nullopt;
  if (!ns || *ns > 9.2e18) return {};
  return Duration(static_cast<int64_t>(std::llround(*ns)));
}

std::optional<Bytes> parse_size(std::string_view text) {
  const auto s = scan(text);
  if (!s) return {};
  Scanned binary = *s;
  if (binary.rest.size() == 3 && binary.rest.ends_with("iB")) binary.rest.remove_suffix(2);
  auto bytes = scale(binary, kSizes, 1);
  if (!bytes) bytes = scale(*s, kOtherSizes, 1);
  // 1.001KB is 1001 bytes, though 1.001 is not quite a double.
  if (!bytes || *bytes > 9e18 || std::abs(*bytes - std::round(*bytes)) > 1e-6) return {};
  return static_cast<Bytes>(std::llround(*bytes));
}

std::optional<Rate> parse_rate(std::string_view text) {
  if (text == "unlimited") return Rate::unlimited();
  const auto s = scan(text);
  const auto bits = s ? scale(*s, kRates, 1) : std::nullopt;
  if (!bits || *bits > 1e18) return {};
  return Rate{*bits};
}

std::string text_of(Duration d) {
  return d.count() == 0 ? "0s" : print(static_cast<double>(d.count()), kDurations, "ns");
}

std::string size_text(Bytes n) { return print(static_cast<double>(n), kSizes, ""); }

std::string short_size_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  char text[64];
  snprintf(text, sizeof text, "%.*f %s", decimals, bytes, kUnits[unit]);
  return text;
}

std::string text_of(Rate r) { return r.is_unlimited() ? "unlimited" : print(r.bits_per_second, kRates, ""); }

}  // namespace megascale
