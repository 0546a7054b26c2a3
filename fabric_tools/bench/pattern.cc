#include "fabric_tools/bench/pattern.h"

#include <algorithm>
#include <vector>

#include "plugin/host/reduce.h"

namespace megascale {
namespace {

using host::DataType;
using host::ReduceOp;

// 0 to 127, well mixed, and cheap enough to be computed beside the memory's speed.
inline uint32_t dice(uint32_t rank, uint64_t index, uint32_t iteration) {
  const uint32_t mixed =
      (static_cast<uint32_t>(index) + rank * 0x9e37U + iteration * 0x85ebU + 1) * 0x9e3779b1U;
  return (mixed ^ static_cast<uint32_t>(index >> 32)) >> 25;
}

// The largest value so that a sum over the ranks stays a whole number that bf16 (8 bits) holds exactly.
uint32_t sum_range(int ranks) { return std::max(1U, std::min(7U, 255U / static_cast<uint32_t>(ranks))); }

struct Values {
  bool reduces;
  ReduceOp op;
  uint32_t range;

  uint32_t at(uint32_t rank, uint64_t index, uint32_t iteration) const {
    const uint32_t d = dice(rank, index, iteration);
    if (!reduces || op == ReduceOp::min || op == ReduceOp::max) return d;
    if (op == ReduceOp::prod) return rank < 64 ? 1 + (d & 1U) : 1;  // powers of two are exact in every type
    return rank < 255 ? (d * (range + 1)) >> 7 : 0;
  }
};

template <class T>
T element(uint32_t value) {
  return static_cast<T>(value);
}
struct Bf16 {
  uint16_t bits;
  bool operator==(const Bf16&) const = default;
};
template <>
Bf16 element<Bf16>(uint32_t value) {
  return {host::float_to_bf16(static_cast<float>(value))};
}

// Reductions of wide integers, cut to the type at the end: what wrapping arithmetic gives. Products of floats
// are powers of two below 2^64 and exact in double.
template <class T, class Wide>
T reduced(const Values& values, int ranks, uint64_t index, uint32_t iteration) {
  Wide result = static_cast<Wide>(values.at(0, index, iteration));
  for (uint32_t rank = 1; rank < static_cast<uint32_t>(ranks); ++rank) {
    const Wide next = static_cast<Wide>(values.at(rank, index, iteration));
    switch (values.op) {
      case ReduceOp::sum:
        result = static_cast<Wide>(result + next);
        break;
      case ReduceOp::prod:
        result = static_cast<Wide>(result * next);
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
    }
  }
  if constexpr (std::is_same_v<T, Bf16>) {
    return {host::float_to_bf16(static_cast<float>(result))};
  } else {
    return static_cast<T>(result);
  }
}

// `make(T tag, Wide tag)` for the type.
template <class Make>
auto with_type(DataType type, Make make) {
  switch (type) {
    case DataType::i8:
      return make(int8_t{}, uint64_t{});
    case DataType::u8:
      return make(uint8_t{}, uint64_t{});
    case DataType::i32:
      return make(int32_t{}, uint64_t{});
    case DataType::u32:
      return make(uint32_t{}, uint64_t{});
    case DataType::i64:
      return make(int64_t{}, uint64_t{});
    case DataType::u64:
      return make(uint64_t{}, uint64_t{});
    case DataType::f32:
      return make(float{}, double{});
    case DataType::f64:
      return make(double{}, double{});
    case DataType::bf16:
      break;
  }
  return make(Bf16{}, double{});
}

}  // namespace

size_t Pattern::input_elements(size_t count) const {
  const bool all = collective == Collective::reduce_scatter || collective == Collective::all_to_all;
  return all ? count * static_cast<size_t>(ranks) : count;
}

size_t Pattern::output_elements(size_t count) const {
  const bool all = collective == Collective::all_gather || collective == Collective::all_to_all;
  return all ? count * static_cast<size_t>(ranks) : count;
}

void Pattern::fill_input(void* data, int rank, size_t count, uint32_t iteration) const {
  const Values values{reduces(collective), op, sum_range(ranks)};
  with_type(type, [&](auto tag, auto) {
    using T = decltype(tag);
    T* to = static_cast<T*>(data);
    const size_t n = input_elements(count);
    for (size_t i = 0; i < n; ++i) to[i] = element<T>(values.at(static_cast<uint32_t>(rank), i, iteration));
  });
}

uint64_t Pattern::wrong_elements(const void* data, int rank, size_t count, uint32_t iteration) const {
  const Values values{reduces(collective), op, sum_range(ranks)};
  const size_t n = output_elements(count), own = static_cast<size_t>(rank) * count;
  return with_type(type, [&](auto tag, auto wide) {
    using T = decltype(tag);
    using Wide = decltype(wide);
    const T* got = static_cast<const T*>(data);
    uint64_t wrong = 0;
    auto compare = [&](size_t i, T expected) { wrong += !(got[i] == expected); };
    auto moved = [&](size_t i, size_t from, size_t index) {
      compare(i, element<T>(values.at(static_cast<uint32_t>(from), index, iteration)));
    };
    const auto previous = static_cast<size_t>((rank + ranks - 1) % ranks);
    for (size_t i = 0; i < n; ++i) {
      switch (collective) {
        case Collective::all_reduce:
          compare(i, reduced<T, Wide>(values, ranks, i, iteration));
          break;
        case Collective::reduce_scatter:
          compare(i, reduced<T, Wide>(values, ranks, own + i, iteration));
          break;
        case Collective::all_gather:
          moved(i, i / count, i % count);
          break;
        case Collective::all_to_all:
          moved(i, i / count, own + i % count);
          break;
        case Collective::broadcast:
          moved(i, static_cast<size_t>(root), i);
          break;
        case Collective::sendrecv:
          moved(i, previous, i);
          break;
        case Collective::barrier:
          break;
      }
    }
    return wrong;
  });
}

}  // namespace megascale
