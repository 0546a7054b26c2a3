#include "fabric_tools/bench/options.h"

#include <cmath>
#include <stdexcept>

namespace megascale {

std::string_view name_of(Collective collective) {
  static constexpr std::string_view names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                               "sendrecv",   "all_to_all", "barrier"};
  return names[static_cast<size_t>(collective)];
}

uint64_t parse_size(const std::string& text) {
  const auto wrong = [&] {
    return std::invalid_argument("`" + text + "' is no size: write bytes as 8, 64K, 4M or 1G, at most 1T");
  };
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > 13) throw wrong();
  const uint64_t number = std::stoull(text.substr(0, digits));
  const std::string unit = text.substr(digits);
  int shift = 0;
  if (unit == "K" || unit == "k" || unit == "KiB") {
    shift = 10;
  } else if (unit == "M" || unit == "m" || unit == "MiB") {
    shift = 20;
  } else if (unit == "G" || unit == "g" || unit == "GiB") {
    shift = 30;
  } else if (unit == "T") {
    shift = 40;
  } else if (!unit.empty() && unit != "B") {
    throw wrong();
  }
  constexpr uint64_t most = 1ULL << 40;
  if (number > (most >> shift)) throw wrong();
  return number << shift;
}

std::vector<uint64_t> sizes_of(const BenchOptions& options) {
  if (options.collective == Collective::barrier) return {0};
  std::vector<uint64_t> sizes;
  for (uint64_t size = options.smallest; size <= options.largest;) {
    sizes.push_back(size);
    if (options.smallest == options.largest) break;
    const uint64_t next = options.step > 0
                              ? size + options.step
                              : static_cast<uint64_t>(std::floor(static_cast<double>(size) * options.factor));
    size = next > size ? next : size + 1;
  }
  return sizes;
}

}  // namespace megascale
