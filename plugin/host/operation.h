// One asynchronous operation while it is under way: what its caller waits for, and the tasks that it consists
// of, one a ring or a peer.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "plugin/host/data_type.h"
#include "plugin/host/plan.h"

namespace megascale::host {

struct Operation;

// A plan being carried out on one connection each way. Everything but `operation` is guarded by the engine's
// lock.
struct Task {
  Operation* operation = nullptr;
  Plan plan;
  const uint8_t* input = nullptr;
  uint8_t* output = nullptr;
  void* input_region = nullptr;           // on the sending connection
  void* output_send_region = nullptr;     // on the sending connection
  void* output_receive_region = nullptr;  // on the receiving connection
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;

  uint32_t sends_posted = 0, sends_done = 0;
  uint32_t receives_posted = 0, receives_done = 0;
  std::deque<int> held;  // scratch slots with partial results, in the order in which they will be sent

  bool complete() const { return sends_done == plan.sends.size() && receives_done == plan.receives.size(); }
};

struct Operation {
  explicit Operation(const char* what) : name(what) {}

  const char* name;
  std::vector<std::unique_ptr<Task>> tasks;
  size_t tasks_left = 0;
  std::vector<uint8_t> own_memory;  // of operations without a buffer of the caller's

  struct Registration {
    void* connection;
    void* region;
  };
  std::vector<Registration> registrations;  // to be undone at the end

  // Written before `finished`, read after it.
  std::string error;
  int culprit = -1;
  std::atomic<bool> finished = false;
};

}  // namespace megascale::host
