// Which sequence of the text is seen when: a function of seed and position in the run alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/kernels/kernels.h"

namespace megascale::trainer {

// A pseudo-random permutation of 0..size-1 that is computed, not stored: a Feistel network over the next even
// power of two, walked until it falls inside (Black and Rogaway, CT-RSA 2002, "cycle walking").
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key);
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t size_, key_;
  unsigned half_bits_ = 1;
};

// Cuts a text into windows of `context` + 1 tokens that overlap by one, and deals them out: each window once
// an epoch, in another order every epoch, with the cuts moved by another amount every epoch.
class SampleOrder {
 public:
  // Throws std::invalid_argument when the text is shorter than two windows.
  SampleOrder(uint64_t tokens, size_t context, uint64_t seed);

  uint64_t windows() const { return windows_; }  // of an epoch
  // The first token of the sequence that is `index`-th in the whole run.
  uint64_t offset(uint64_t index) const;

 private:
  uint64_t context_, seed_, windows_;
};

// The sequences of one rank in one step.
class BatchReader {
 public:
  BatchReader(std::span<const uint8_t> text, size_t context) : text_(text), context_(context) {}

  // Appends the window at `offset`: its inputs and the same shifted by one.
  void append(uint64_t offset);
  void clear();
  std::span<const Token> inputs() const { return inputs_; }
  std::span<const Token> targets() const { return targets_; }

 private:
  std::span<const uint8_t> text_;
  size_t context_;
  std::vector<Token> inputs_, targets_;
};

// Sequences first, first + 1, ... first + count - 1 of a step belong to a rank.
struct Share {
  uint64_t first = 0;
  size_t count = 0;
};
Share share_of(size_t batch, int rank, int ranks);

}  // namespace megascale::trainer
