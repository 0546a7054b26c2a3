#include "plugin/host/reduce.h"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace megascale::host {
namespace {

#define MEGASCALE_INLINE inline __attribute__((always_inline))

struct Bf16 {
  uint16_t bits;
};

MEGASCALE_INLINE float widen(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

// Round to nearest even without a branch, so that the loop vectorises; a NaN stays one.
MEGASCALE_INLINE Bf16 narrow(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  const uint32_t kept = (bits & 0x7fffffffU) > 0x7f800000U ? bits | 0x400000U : rounded;
  return {static_cast<uint16_t>(kept >> 16)};
}

// Unsigned arithmetic wraps where signed would be undefined; the bits are the same.
template <class T>
struct Wrapping {
  using type = T;
};
template <class T>
requires std::is_integral_v<T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};

template <ReduceOp op, class T>
MEGASCALE_INLINE T combine(T a, T b) {
  using U = typename Wrapping<T>::type;
  if constexpr (op == ReduceOp::sum) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  if constexpr (op == ReduceOp::prod) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  if constexpr (op == ReduceOp::min) return b < a ? b : a;
  if constexpr (op == ReduceOp::max) return a < b ? b : a;
}

template <ReduceOp op, class T>
MEGASCALE_INLINE void loop(void* out, const void* a, const void* b, size_t count) {
  auto* to = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
#pragma GCC ivdep  // `out` is exactly `a` or `b` or apart from both
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, Bf16>) {
      to[i] = narrow(combine<op>(widen(x[i]), widen(y[i])));
    } else {
      to[i] = combine<op>(x[i], y[i]);
    }
  }
}

template <class T>
MEGASCALE_INLINE void by_op(void* out, const void* a, const void* b, size_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return loop<ReduceOp::sum, T>(out, a, b, count);
    case ReduceOp::prod:
      return loop<ReduceOp::prod, T>(out, a, b, count);
    case ReduceOp::min:
      return loop<ReduceOp::min, T>(out, a, b, count);
    case ReduceOp::max:
      return loop<ReduceOp::max, T>(out, a, b, count);
  }
}

MEGASCALE_INLINE void by_type(void* out, const void* a, const void* b, size_t count, DataType type,
                              ReduceOp op) {
  switch (type) {
    case DataType::i8:
      return by_op<int8_t>(out, a, b, count, op);
    case DataType::u8:
      return by_op<uint8_t>(out, a, b, count, op);
    case DataType::i32:
      return by_op<int32_t>(out, a, b, count, op);
    case DataType::u32:
      return by_op<uint32_t>(out, a, b, count, op);
    case DataType::i64:
      return by_op<int64_t>(out, a, b, count, op);
    case DataType::u64:
      return by_op<uint64_t>(out, a, b, count, op);
    case DataType::f32:
      return by_op<float>(out, a, b, count, op);
    case DataType::f64:
      return by_op<double>(out, a, b, count, op);
    case DataType::bf16:
      return by_op<Bf16>(out, a, b, count, op);
  }
}

void reduce_baseline(void* out, const void* a, const void* b, size_t count, DataType type, ReduceOp op) {
  by_type(out, a, b, count, type, op);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) void reduce_avx2(void* out, const void* a, const void* b, size_t count,
                                                 DataType type, ReduceOp op) {
  by_type(out, a, b, count, type, op);
}
#endif

}  // namespace

void reduce(void* out, const void* a, const void* b, size_t count, DataType type, ReduceOp op) {
#ifdef __x86_64__
  static const bool wide = __builtin_cpu_supports("avx2");
  if (wide) return reduce_avx2(out, a, b, count, type, op);
#endif
  reduce_baseline(out, a, b, count, type, op);
}

float bf16_to_float(uint16_t bits) { return widen({bits}); }
uint16_t float_to_bf16(float value) { return narrow(value).bits; }

}  // namespace megascale::host
