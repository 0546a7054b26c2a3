#include "trainer/data/sample_order.h"

#include <bit>
#include <stdexcept>
#include <string>

#include "trainer/random/counter.h"

namespace megascale::trainer {
namespace {

constexpr uint64_t kRounds = 4;
constexpr uint64_t kPhaseStream = 0x70686173;  // streams of counter_random, apart from those of the weights
constexpr uint64_t kOrderStream = 0x6F726465;

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size), key_(key) {
  if (size == 0 || size > uint64_t{1} << 62)
    throw std::invalid_argument("a permutation needs 1 to 2^62 elements");
  const auto bits = static_cast<unsigned>(std::bit_width(size - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

uint64_t Permutation::operator()(uint64_t index) const {
  if (index >= size_)
    throw std::out_of_range("permutation of " + std::to_string(size_) + " asked for " +
                            std::to_string(index));
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  // A bijection of a set at most four times as large: the walk from inside comes back inside.
  do {
    uint64_t left = index >> half_bits_, right = index & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (counter_random(key_, round, right) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= size_);
  return index;
}

SampleOrder::SampleOrder(uint64_t tokens, size_t context, uint64_t seed) : context_(context), seed_(seed) {
  if (context == 0 || tokens < 2 * context + 1)
    throw std::invalid_argument("a text of " + std::to_string(tokens) +
                                " tokens is too short for sequences of " + std::to_string(context) +
                                ": at least " + std::to_string(2 * context + 1) + " are needed");
  windows_ = (tokens - 1) / context - 1;  // one less than fit: the cuts move by up to a window
}

uint64_t SampleOrder::offset(uint64_t index) const {
  const uint64_t epoch = index / windows_;
  const uint64_t phase = counter_random(seed_, kPhaseStream, epoch) % context_;
  const Permutation order(windows_, counter_random(seed_, kOrderStream, epoch));
  return phase + order(index % windows_) * context_;
}

void BatchReader::clear() {
  inputs_.clear();
  targets_.clear();
}

void BatchReader::append(uint64_t offset) {
  if (offset + context_ + 1 > text_.size())
    throw std::out_of_range("a sequence at " + std::to_string(offset) + " reaches past the text's " +
                            std::to_string(text_.size()) + " tokens");
  const auto window = text_.subspan(offset, context_ + 1);
  inputs_.insert(inputs_.end(), window.begin(), window.end() - 1);
  targets_.insert(targets_.end(), window.begin() + 1, window.end());
}

Share share_of(size_t batch, int rank, int ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks || batch % static_cast<size_t>(ranks) != 0)
    throw std::invalid_argument("a batch of " + std::to_string(batch) + " sequences cannot be shared by " +
                                std::to_string(ranks) + " ranks: it must divide by them");
  const size_t count = batch / static_cast<size_t>(ranks);
  return {static_cast<uint64_t>(rank) * count, count};
}

}  // namespace megascale::trainer
