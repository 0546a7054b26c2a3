// A set of packet sequence numbers within a window that moves up: bits in a ring.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace megascale::sim {

class PacketSet {
 public:
  // `low`: nothing below it is in the set any more.
  void insert(uint32_t psn, uint32_t low) {
    if (psn - low >= size()) grow(psn, low);
    word(psn) |= bit(psn);
  }
  void erase(uint32_t psn) {
    if (!words_.empty()) word(psn) &= ~bit(psn);
  }
  bool contains(uint32_t psn, uint32_t low) const {
    return psn - low < size() && (words_[psn % size() / 64] & bit(psn)) != 0;
  }
  size_t size() const { return words_.size() * 64; }

 private:
  static uint64_t bit(uint32_t psn) { return uint64_t{1} << psn % 64; }
  uint64_t& word(uint32_t psn) { return words_[psn % size() / 64]; }

  void grow(uint32_t psn, uint32_t low) {
    std::vector<uint64_t> old(std::max<size_t>(2, words_.size()));
    while (old.size() * 64 <= psn - low) old.resize(old.size() * 2);
    old.swap(words_);
    const uint32_t old_size = static_cast<uint32_t>(old.size() * 64);
    for (uint32_t i = 0; i < old_size && !old.empty(); ++i) {
      if ((old[(low + i) % old_size / 64] & bit(low + i)) != 0) word(low + i) |= bit(low + i);
    }
  }

  std::vector<uint64_t> words_;  // a power of two of them
};

}  // namespace megascale::sim
