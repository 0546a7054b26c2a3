// What else a job goes through besides operations: splits, aborts, a killed peer, a long life, rails that
// fail.
#pragma once
#include <string>

#include "tests/rig/nccl/rank/job.h"

namespace megascale::rig {

// Splits the communicator in two by parity, in reversed order, and uses parent and child by turns; `share`:
// the child shares the parent's resources. One of the two dies first, by `share`.
void run_split(Job& job, Group& group, std::size_t bytes, bool share);

// Aborts and says how long it took; throws Failure when that was too long.
void abort_in_time(Job& job, Group& group);

// Aborts with traffic in flight: all ranks at once (aborter < 0), or one, whose peers must be told by an
// asynchronous error. Then a new communicator must work in the same processes.
void run_abort(Job& job, Group& group, std::size_t bytes, int aborter);

// Rank `victim` dies by SIGKILL in the middle of an all-reduce; the others must get an asynchronous error and
// abort.
void run_killed(Job& job, Group& group, std::size_t bytes, int victim);

// Creates, uses and destroys communicators; descriptors, threads and memory maps must not grow.
void run_lifecycle(Job& job, std::size_t bytes, int times);

// Checked all-reduces until the file exists; says each second how many were done, and at the end the longest.
void run_until(Job& job, Group& group, std::size_t bytes, const std::string& file);

}  // namespace megascale::rig
