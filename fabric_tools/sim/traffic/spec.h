// A traffic's description on the command line: `incast:64:1MB:to=host3/0`. A kind, then its parameters,
// in their order or by name.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cc/units.h"

namespace megascale::sim {

class Spec {
 public:
  explicit Spec(std::string_view text);

  const std::string& kind() const { return kind_; }

  // The value called `name`, or else the next one without a name; the fallback when there is neither. Each
  // throws std::invalid_argument, quoting the whole description, for what is missing or out of range.
  Bytes bytes(std::string_view name, std::optional<Bytes> fallback = {});  // 1 or more
  uint32_t count(std::string_view name, uint32_t least, uint32_t most, std::optional<uint32_t> fallback = {});
  double share(std::string_view name, std::optional<double> fallback = {});  // above 0, at most 1
  Duration time(std::string_view name, std::optional<Duration> fallback = {});
  std::string word(std::string_view name, std::optional<std::string> fallback = {});

  Duration start();  // `at=`, which every kind takes, and only by its name; 0 without it

  void done() const;  // throws when something was given that nobody asked for
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::optional<std::string> take(std::string_view name);
  std::string need(std::string_view name);

  std::string text_, kind_;
  std::vector<std::string> values_;  // without a name
  size_t next_ = 0;
  std::map<std::string, std::string, std::less<>> named_;
  std::vector<std::string> asked_;
};

}  // namespace megascale::sim
