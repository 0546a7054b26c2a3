// The elements of a test's messages: what each rank puts where, and what a reduction over the ranks must
// give.
//
// Values depend on position, rank and round by a hash, so that a block that lands elsewhere, late or twice is
// noticed. They are integers small enough for every reduction to be exact in the type, averages of floats
// excepted.
#pragma once
#include <nccl.h>

#include <cstddef>
#include <span>
#include <string>

namespace megascale::rig {

inline constexpr int kTypes = 10;      // ncclInt8 .. ncclBfloat16
inline constexpr int kReductions = 6;  // ncclSum .. ncclAvg, and a scaled sum made by the user
inline constexpr int kScaledSum = 5;   // its factor is kFactor
inline constexpr int kFactor = 2;

std::size_t size_of(ncclDataType_t type);
const char* name_of(ncclDataType_t type);
const char* name_of_reduction(int reduction);

struct Pattern {
  ncclDataType_t type = ncclFloat32;
  int reduction = ncclSum;
  int ranks = 1;
  unsigned round = 0;
};

// Writes the integer `value` as one element of the type.
void put_integer(ncclDataType_t type, int value, std::span<std::byte> element);
// Fills `bytes` with what `rank` contributes, the first of them being element `from` of its contribution.
void fill(const Pattern& pattern, int rank, std::size_t from, std::span<std::byte> bytes);

struct Mismatch {
  std::size_t wrong = 0;  // elements
  std::string first;      // position, value, expected value
};
// Compares with what `rank` contributed, or with the reduction over all ranks.
Mismatch compare_copy(const Pattern& pattern, int rank, std::size_t from, std::span<const std::byte> bytes);
Mismatch compare_reduced(const Pattern& pattern, std::size_t from, std::span<const std::byte> bytes);

}  // namespace megascale::rig
