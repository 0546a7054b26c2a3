#include "plugin/host/scratch.h"

#include <new>

namespace megascale::host {

Scratch::Scratch(size_t slot_bytes) : slot_bytes_(slot_bytes) {
  constexpr size_t page = 4096;  // whole pages of our own: registration rounds to pages
  memory_.reset(static_cast<uint8_t*>(std::aligned_alloc(page, (size() + page - 1) / page * page)));
  if (!memory_) throw std::bad_alloc();
  free_.reserve(kSlots);
  reset();
}

int Scratch::take() {
  if (free_.empty()) return -1;
  const int index = free_.back();
  free_.pop_back();
  return index;
}

void Scratch::reset() {
  free_.clear();
  for (int i = kSlots; i-- > 0;) free_.push_back(i);
}

}  // namespace megascale::host
