// NCCL's operations, posted with known contents and checked element by element.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/rig/nccl/rank/elements.h"
#include "tests/rig/nccl/rank/job.h"

namespace megascale::rig {

enum class Operation { AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, SendRecv, AllToAll };

std::optional<Operation> operation_named(std::string_view name);
const char* name_of(Operation operation);

// One operation of one rank: its buffers, what goes into them and what must come out. The bytes after each
// buffer's end are watched, too.
class Work {
 public:
  // `bytes`: what one rank contributes (all-to-all: to each other rank).
  Work(Operation operation, const Group& group, Pattern pattern, std::size_t bytes, int root);

  void fill_buffers();              // contributions in, poison elsewhere
  void post(const Group& group);    // to the group's stream
  Mismatch check_buffers() const;   // when the stream is done
  std::string description() const;  // for a report of what went wrong

 private:
  void post_reduction(const Group& group, ncclRedOp_t reduction);
  Mismatch check_result(std::span<const std::byte> out) const;
  void post_scaled_sum(const Group& group);
  void post_copy(const Group& group);
  // Where in `out_` contribution and result lie: in place they may be this rank's part of a longer buffer.
  std::size_t offset_in() const;
  std::size_t offset_out() const;

  Operation operation_;
  Pattern pattern_;
  int rank_, size_, root_;
  std::size_t count_, bytes_, in_bytes_, out_bytes_, whole_out_bytes_;
  bool in_place_;
  std::unique_ptr<DeviceBuffer> in_, out_;  // in place: only out_
};

// `rounds` operations one after the other, over changing types, reductions and roots; throws Failure at a
// wrong element.
void run_operations(Job& job, const Group& group, Operation operation, std::size_t bytes, int rounds);
// `rounds` groups, each of 60 all-reduces of all types and reductions and of one of every other operation,
// sizes up to `bytes`.
void run_groups(Job& job, const Group& group, std::size_t bytes, int rounds);

// The combination of type and reduction that a round tests: all 60 in 60 rounds, and a mix of both in fewer.
Pattern pattern_of_round(unsigned round, int ranks);

inline constexpr std::chrono::seconds kOperationDeadline{120};

}  // namespace megascale::rig
