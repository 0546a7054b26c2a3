// What `megascale-fabric bench` was asked for.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/host/data_type.h"

namespace megascale {

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, sendrecv, all_to_all, barrier };

inline constexpr Collective kCollectives[] = {
    Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::broadcast,
    Collective::sendrecv,   Collective::all_to_all, Collective::barrier};
std::string_view name_of(Collective);
// Whether values of several ranks are combined.
constexpr bool reduces(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce_scatter;
}

struct BenchOptions {
  Collective collective = Collective::all_reduce;
  bool point_to_point = false;

  uint64_t smallest = 8, largest = 64 << 20;  // bytes
  uint64_t step = 0;                          // bytes added from size to size; 0: multiply
  double factor = 4;
  int iterations = 20;
  int warm_up = 5;
  int checks = 1;  // iterations whose results are checked, at each size
  host::DataType type = host::DataType::f32;
  host::ReduceOp op = host::ReduceOp::sum;
  int root = 0;
  std::chrono::duration<double> duration{0};  // repeat all sizes until it is over, checking every operation

  std::string plugin;
  int device = -1;
  int rings = 1;
  uint64_t chunk = 0;
  int connections = 1;        // of point_to_point
  uint64_t volume = 1 << 30;  // bytes that point_to_point moves at each size
  int timeout = 120;          // seconds to meet and to connect
  std::string json;

  // How ranks come into being.
  int ranks = 2;
  bool pin = false;
  std::vector<std::string> hosts;
  std::string launch;
  std::string rendezvous;
};

// "8", "64K", "100KB", at most 1T; throws std::invalid_argument quoting the text.
uint64_t bench_size(const std::string& text);

// From the smallest to the largest, both included when the steps meet them.
std::vector<uint64_t> sizes_of(const BenchOptions&);

}  // namespace megascale
