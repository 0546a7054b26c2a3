#include "tests/rig/nccl/rank/elements.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace megascale::rig {

namespace {

struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

template <class T>
inline constexpr bool kInteger = std::is_integral_v<T>;

// Integers that the type holds exactly: all that fill() needs.
template <class T>
T from_integer(std::int64_t v) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    const float f = static_cast<float>(v);
    std::uint32_t bits;
    std::memcpy(&bits, &f, sizeof bits);
    return {static_cast<std::uint16_t>(bits >> 16)};
  } else if constexpr (std::is_same_v<T, Float16>) {
    if (v == 0) return {0};
    int exponent = 0;
    const double fraction = std::frexp(static_cast<double>(v < 0 ? -v : v), &exponent);  // in [0.5, 1)
    const auto mantissa = static_cast<unsigned>(std::lround(fraction * 2048)) & 1023u;
    const unsigned sign = v < 0 ? 0x8000u : 0u;
    return {static_cast<std::uint16_t>(sign | static_cast<unsigned>(exponent + 14) << 10 | mantissa)};
  } else {
    return static_cast<T>(v);
  }
}

template <class T>
double to_double(T v) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    const std::uint32_t bits = static_cast<std::uint32_t>(v.bits) << 16;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
  } else if constexpr (std::is_same_v<T, Float16>) {
    const int exponent = v.bits >> 10 & 31, mantissa = v.bits & 1023;
    if (exponent == 31) return NAN;  // nor is an infinity ever right here
    const double magnitude =
        exponent ? std::ldexp(mantissa + 1024, exponent - 25) : std::ldexp(mantissa, -24);
    return v.bits & 0x8000 ? -magnitude : magnitude;
  } else {
    return static_cast<double>(v);
  }
}

// The largest integer up to which the type holds all of them, and how far an average may be off.
template <class T>
constexpr std::int64_t kExact = std::is_same_v<T, Bfloat16>  ? 256
                                : std::is_same_v<T, Float16> ? 2048
                                : std::is_same_v<T, float>   ? 1 << 24
                                : sizeof(T) == 1             ? 127
                                : sizeof(T) == 4             ? INT32_MAX
                                                             : std::int64_t{1} << 50;
template <class T>
constexpr double kAverageError = std::is_same_v<T, Bfloat16>  ? 0.04
                                 : std::is_same_v<T, Float16> ? 0.005
                                 : std::is_same_v<T, float>   ? 1e-5
                                                              : 1e-12;

std::uint64_t hash(std::uint64_t index, int rank, unsigned round) {
  std::uint64_t h = index * 0x9e3779b97f4a7c15u + static_cast<unsigned>(rank) * 0xbf58476d1ce4e5b9u +
                    round * 0x94d049bb133111ebu;
  h ^= h >> 29;
  h *= 0xff51afd7ed558ccdu;
  return h >> 32 ^ h << 20;
}

// What a rank contributes. The range leaves room for the sum over the ranks.
template <class T>
class Contribution {
 public:
  explicit Contribution(const Pattern& p) : round_(p.round) {
    if (p.reduction == ncclProd) {
      range_ = 2, lowest_ = 1;
      return;
    }
    range_ = static_cast<std::uint64_t>(std::max<std::int64_t>(2, kExact<T> / (p.ranks * kFactor)));
    const bool has_sign = !kInteger<T> || std::is_signed_v<T>;
    if (has_sign && p.reduction != ncclAvg) lowest_ = -static_cast<std::int64_t>(range_ / 2);
  }
  std::int64_t operator()(std::size_t index, int rank) const {
    return static_cast<std::int64_t>(hash(index, rank, round_) % range_) + lowest_;
  }

 private:
  std::uint64_t range_;
  std::int64_t lowest_ = 0;
  unsigned round_;
};

template <class T>
std::int64_t reduced(const Pattern& p, const Contribution<T>& value, std::size_t index) {
  std::int64_t result = value(index, 0);
  for (int r = 1; r < p.ranks; r++) {
    const std::int64_t v = value(index, r);
    switch (p.reduction) {
      case ncclProd:
        result *= v;
        break;
      case ncclMin:
        result = std::min(result, v);
        break;
      case ncclMax:
        result = std::max(result, v);
        break;
      default:
        result += v;
    }
  }
  return p.reduction == kScaledSum ? result * kFactor : result;
}

template <class T>
bool is_right(const Pattern& p, T actual, std::int64_t expected, bool average) {
  if constexpr (kInteger<T>) {
    return actual == static_cast<T>(average ? expected / p.ranks : expected);
  } else {
    const double wanted = average ? static_cast<double>(expected) / p.ranks : static_cast<double>(expected);
    const double off = std::abs(to_double(actual) - wanted);
    return average ? off <= kAverageError<T> * std::max(1.0, std::abs(wanted)) : off == 0;
  }
}

template <class T, class Expected>
Mismatch compare(const Pattern& p, std::size_t from, std::span<const std::byte> bytes, bool average,
                 Expected expected) {
  Mismatch mismatch;
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); i++) {
    T actual;
    std::memcpy(&actual, bytes.data() + i * sizeof(T), sizeof actual);
    const std::int64_t wanted = expected(from + i);
    if (is_right(p, actual, wanted, average)) continue;
    if (mismatch.wrong++ == 0)
      mismatch.first = "element " + std::to_string(from + i) + " is " + std::to_string(to_double(actual)) +
                       ", expected " + std::to_string(average ? wanted / p.ranks : wanted);
  }
  return mismatch;
}

template <class Visit>
auto with_type(ncclDataType_t type, Visit visit) {
  switch (type) {
    case ncclInt8:
      return visit(std::int8_t{});
    case ncclUint8:
      return visit(std::uint8_t{});
    case ncclInt32:
      return visit(std::int32_t{});
    case ncclUint32:
      return visit(std::uint32_t{});
    case ncclInt64:
      return visit(std::int64_t{});
    case ncclUint64:
      return visit(std::uint64_t{});
    case ncclFloat16:
      return visit(Float16{});
    case ncclFloat64:
      return visit(double{});
    case ncclBfloat16:
      return visit(Bfloat16{});
    default:
      return visit(float{});
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  return with_type(type, [](auto zero) { return sizeof zero; });
}

const char* name_of(ncclDataType_t type) {
  static const char* const names[kTypes] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                            "uint64", "float16", "float32", "float64", "bfloat16"};
  return type >= 0 && type < kTypes ? names[type] : "?";
}

const char* name_of_reduction(int reduction) {
  static const char* const names[kReductions] = {"sum", "product", "max", "min", "average", "scaled sum"};
  return reduction >= 0 && reduction < kReductions ? names[reduction] : "?";
}

void put_integer(ncclDataType_t type, int value, std::span<std::byte> element) {
  with_type(type, [&](auto zero) {
    const auto v = from_integer<decltype(zero)>(value);
    std::memcpy(element.data(), &v, std::min(sizeof v, element.size()));
  });
}

void fill(const Pattern& p, int rank, std::size_t from, std::span<std::byte> bytes) {
  with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    const Contribution<T> value(p);
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); i++) {
      const T element = from_integer<T>(value(from + i, rank));
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof element);
    }
  });
}

Mismatch compare_copy(const Pattern& p, int rank, std::size_t from, std::span<const std::byte> bytes) {
  return with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    const Contribution<T> value(p);
    return compare<T>(p, from, bytes, false, [&](std::size_t i) { return value(i, rank); });
  });
}

Mismatch compare_reduced(const Pattern& p, std::size_t from, std::span<const std::byte> bytes) {
  return with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    const Contribution<T> value(p);
    return compare<T>(p, from, bytes, p.reduction == ncclAvg,
                      [&](std::size_t i) { return reduced(p, value, i); });
  });
}

}  // namespace megascale::rig
