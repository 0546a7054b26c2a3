// Registered memory where a ring receives what it is going to reduce: slots of one chunk each.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace megascale::host {

class Scratch {
 public:
  // A ring can have abi::kSteps receives in flight and holds at most a block's chunks until they are sent;
  // twice the former keeps both directions moving.
  static constexpr int kSlots = 16;

  explicit Scratch(size_t slot_bytes);
  uint8_t* memory() const { return memory_.get(); }
  size_t size() const { return slot_bytes_ * kSlots; }
  uint8_t* slot(int index) const { return memory_.get() + static_cast<size_t>(index) * slot_bytes_; }

  int take();  // -1: none is free
  void give_back(int index) { free_.push_back(index); }
  void reset();

  void* send_region = nullptr;  // of the whole memory, on the ring's connections
  void* receive_region = nullptr;

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  size_t slot_bytes_;
  std::unique_ptr<uint8_t, Free> memory_;
  std::vector<int> free_;
};

}  // namespace megascale::host
