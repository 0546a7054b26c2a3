// Rows of results: a table for people while they come, a document for programs at the end.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fabric_tools/bench/options.h"

namespace megascale {

struct CollectiveRow {
  uint64_t bytes = 0;  // as nccl-tests counts: the larger of a rank's two buffers
  uint64_t count = 0;  // elements of it
  uint64_t operations = 0;
  double seconds = 0;  // of one operation, at the slowest rank, on average
  double longest = 0;  // seconds of the slowest operation; 0: not measured one by one
  uint64_t wrong = 0;  // elements, of all ranks

  double algorithm_bandwidth() const;  // bytes per second
};

// What a wire must carry for a byte of a collective, whatever the algorithm: nccl-tests' factors.
double bus_factor(Collective, int ranks);

struct PointToPointRow {
  uint64_t bytes = 0;
  uint64_t messages = 0;
  double bytes_per_second = 0;
  double cpu_seconds_per_gigabyte = 0;              // both sides; 10^9 bytes
  double p50 = 0, p99 = 0, p999 = 0, shortest = 0;  // seconds of half a round trip
  uint64_t wrong = 0;                               // messages
};

struct Circumstances {
  BenchOptions options;
  int ranks = 0;
  std::string network, plugin;
};

void print_heading(const Circumstances&);
void print_row(const Circumstances&, const CollectiveRow&);
void print_row(const Circumstances&, const PointToPointRow&);
void print_total(uint64_t wrong, double bus_bandwidth);

nlohmann::ordered_json document(const Circumstances&, const std::vector<CollectiveRow>&);
nlohmann::ordered_json document(const Circumstances&, const std::vector<PointToPointRow>&);

}  // namespace megascale
