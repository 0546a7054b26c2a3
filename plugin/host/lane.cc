#include "plugin/host/lane.h"

#include "plugin/host/log.h"
#include "plugin/host/reduce.h"

namespace megascale::host {

void Lane::forget_everything() {
  queue_.clear();
  done_ = posted_;
}

bool Lane::test_oldest(int* size) {
  int done = -1;  // NCCL's variable is uninitialised: a plugin must write it
  const abi::Result result = net_.test(requests_[done_ % abi::kSteps], &done, size);
  if (result != abi::kSuccess) fail("test", result);
  return done != 0;
}

void Lane::fail(const char* call, abi::Result result) const {
  std::string text = net_.name() + "'s " + call + " failed with " + describe(result);
  if (const std::string warning = take_last_warning(); !warning.empty()) text += ": " + warning;
  throw LaneError(peer_, text);
}

bool SendLane::progress(std::vector<Task*>& complete) {
  bool moved = post();
  while (posted_ != done_) {
    int size = -1;
    if (!test_oldest(&size)) break;
    const Flight& flight = flights_[done_ % abi::kSteps];
    ++done_;
    moved = true;
    if (flight.slot >= 0) scratch_->give_back(flight.slot);
    ++flight.task->sends_done;
    if (flight.task->complete()) complete.push_back(flight.task);
  }
  return moved;
}

bool SendLane::post() {
  bool moved = false;
  while (room() && !queue_.empty()) {
    Task& task = *queue_.front();
    const SendStep& step = task.plan.sends[task.sends_posted];
    if (task.receives_done < step.after_receives) break;
    const void* data = nullptr;
    void* region = nullptr;
    int slot = -1;
    switch (step.from) {
      case SendStep::From::input:
        data = task.input + step.offset, region = task.input_region;
        break;
      case SendStep::From::output:
        data = task.output + step.offset, region = task.output_send_region;
        break;
      case SendStep::From::slot:
        slot = task.held.front();
        data = scratch_->slot(slot), region = scratch_->send_region;
        break;
    }
    void** request = request_place();
    const abi::Result result = net_.isend(connection_, data, step.bytes, tag_, region, request);
    if (result != abi::kSuccess) fail("isend", result);
    if (*request == nullptr) break;
    if (slot >= 0) task.held.pop_front();
    next_flight() = {&task, task.sends_posted, slot};
    ++posted_;
    moved = true;
    if (++task.sends_posted == task.plan.sends.size()) queue_.pop_front();
  }
  return moved;
}

bool ReceiveLane::progress(std::vector<Task*>& complete) {
  bool moved = post();
  while (posted_ != done_) {
    int size = -1;
    if (!test_oldest(&size)) break;
    const Flight flight = flights_[done_ % abi::kSteps];
    ++done_;
    moved = true;
    const uint32_t expected = flight.task->plan.receives[flight.step].bytes;
    if (size != static_cast<int>(expected)) {
      throw LaneError(
          peer_, std::string("a message of ") + flight.task->operation->name + " has " +
                     std::to_string(size) + " bytes where " + std::to_string(expected) +
                     " were expected: both ranks must call the same operations in the same order with the "
                     "same sizes");
    }
    take(flight);
    ++flight.task->receives_done;
    if (flight.task->complete()) complete.push_back(flight.task);
    post();  // keeps the wire busy while the next chunk is reduced
  }
  return moved;
}

bool ReceiveLane::post() {
  bool moved = false;
  while (room() && !queue_.empty()) {
    Task& task = *queue_.front();
    const ReceiveStep& step = task.plan.receives[task.receives_posted];
    if (task.sends_done < step.after_sends) break;
    int slot = -1;
    void* data = task.output + step.offset;
    void* region = task.output_receive_region;
    if (step.then != ReceiveStep::Then::place) {
      slot = scratch_->take();
      if (slot < 0) break;
      data = scratch_->slot(slot), region = scratch_->receive_region;
    }
    size_t size = step.bytes;
    int tag = peer_;  // NCCL tags a message with its sender's rank
    void** request = request_place();
    *request = nullptr;  // no optional completion: data must be there when test says so
    const abi::Result result = net_.irecv(connection_, 1, &data, &size, &tag, &region, request);
    if (result != abi::kSuccess) fail("irecv", result);
    if (*request == nullptr) {
      if (slot >= 0) scratch_->give_back(slot);
      break;
    }
    next_flight() = {&task, task.receives_posted, slot};
    ++posted_;
    moved = true;
    if (++task.receives_posted == task.plan.receives.size()) queue_.pop_front();
  }
  return moved;
}

void ReceiveLane::take(const Flight& flight) {
  Task& task = *flight.task;
  const ReceiveStep& step = task.plan.receives[flight.step];
  if (step.then == ReceiveStep::Then::place) return;
  uint8_t* received = scratch_->slot(flight.slot);
  const size_t count = step.bytes / size_of(task.type);
  const uint8_t* operand = task.input + step.operand;
  if (step.then == ReceiveStep::Then::reduce) {
    reduce(task.output + step.offset, received, operand, count, task.type, task.op);
    scratch_->give_back(flight.slot);
  } else {
    reduce(received, received, operand, count, task.type, task.op);
    task.held.push_back(flight.slot);
  }
}

}  // namespace megascale::host
