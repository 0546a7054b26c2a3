// One direction of one connection: carries tasks' steps out in order, at most eight in flight, as NCCL's
// proxy does: only the oldest is tested, a null request means the same call again later, and `*request` holds
// what the last operation in its place left there.
#pragma once
#include <array>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin/abi/net.h"
#include "plugin/host/net.h"
#include "plugin/host/operation.h"
#include "plugin/host/scratch.h"

namespace megascale::host {

// A network call failed. `peer` is the rank at the other end.
class LaneError : public std::runtime_error {
 public:
  LaneError(int peer, const std::string& what) : std::runtime_error(what), peer_(peer) {}
  int peer() const { return peer_; }

 private:
  int peer_;
};

class Lane {
 public:
  Lane(Net& net, void* connection, int peer, int tag, Scratch* scratch)
      : net_(net), connection_(connection), peer_(peer), tag_(tag), scratch_(scratch) {}

  void* connection() const { return connection_; }
  int peer() const { return peer_; }
  bool idle() const { return queue_.empty() && posted_ == done_; }
  void enqueue(Task& task) { queue_.push_back(&task); }
  void use(Scratch* scratch) { scratch_ = scratch; }
  void forget_everything();  // after an abort

 protected:
  struct Flight {
    Task* task = nullptr;
    uint32_t step = 0;
    int slot = -1;
  };
  bool room() const { return posted_ - done_ < abi::kSteps; }
  void** request_place() { return &requests_[posted_ % abi::kSteps]; }
  Flight& next_flight() { return flights_[posted_ % abi::kSteps]; }
  bool test_oldest(int* size);  // true when it is done
  [[noreturn]] void fail(const char* call, abi::Result) const;

  Net& net_;
  void* connection_;
  const int peer_;
  const int tag_;
  Scratch* scratch_;
  std::deque<Task*> queue_;  // not yet posted as a whole
  std::array<void*, abi::kSteps> requests_{};
  std::array<Flight, abi::kSteps> flights_{};
  uint64_t posted_ = 0, done_ = 0;
};

class SendLane : public Lane {
 public:
  using Lane::Lane;
  // True when anything moved. Tasks that are complete thereby are appended. Throws LaneError.
  bool progress(std::vector<Task*>& complete);

 private:
  bool post();
};

class ReceiveLane : public Lane {
 public:
  using Lane::Lane;
  bool progress(std::vector<Task*>& complete);

 private:
  bool post();
  void take(const Flight&);
};

}  // namespace megascale::host
