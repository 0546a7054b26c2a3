#include "fabric_tools/bench/options.h"

#include <cmath>
#include <stdexcept>

#include "transport/base/quantity.h"

namespace megascale {

std::string_view name_of(Collective collective) {
  static constexpr std::string_view names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                               "sendrecv",   "all_to_all", "barrier"};
  return names[static_cast<size_t>(collective)];
}

uint64_t bench_size(const std::string& text) {
  const auto bytes = parse_size(text);
  if (!bytes || *bytes > uint64_t{1} << 40)
    throw std::invalid_argument("`" + text + "' is no size: write bytes as 8, 64K, 100KB or 1G, at most 1T");
  return *bytes;
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
