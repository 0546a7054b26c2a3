#include "tests/rig/nccl/rank/scenarios.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tests/rig/nccl/rank/operations.h"

namespace megascale::rig {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// NCCL and the plugin have this long to notice, to stop and to return: ten times what they are meant to need.
static constexpr std::chrono::seconds kNoticeDeadline{30};
static constexpr Seconds kAbortDeadline{20};

void run_split(Job& job, Group& parent, std::size_t bytes, bool share) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = share;
  ncclComm_t comm = nullptr;
  RIG_CHECK(ncclCommSplit(parent.comm, job.rank % 2, -job.rank, &comm, &config));
  Group child = group_of(comm);
  for (int round = 0; round < 3; round++) {
    run_operations(job, parent, Operation::AllReduce, bytes, 2);
    if (child.size > 1) run_groups(job, child, bytes / 4, 1);
  }
  // All but rank 0 form a second one, while the first is alive.
  ncclComm_t others = nullptr;
  RIG_CHECK(ncclCommSplit(parent.comm, job.rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, job.rank, &others, &config));
  if (others) {
    Group group = group_of(others);
    if (group.size > 1) run_operations(job, group, Operation::AllToAll, bytes, 3);
    destroy(group);
  }
  if (share) {  // what is shared outlives the parent
    destroy(parent);
    if (child.size > 1) run_operations(job, child, Operation::AllReduce, bytes, 2);
    destroy(child);
  } else {
    destroy(child);
    run_operations(job, parent, Operation::AllReduce, bytes, 2);
  }
}

// Waits for an asynchronous error while all-reduces go on. Each round is checked by nobody: the peers are
// dying.
static std::string wait_for_error(const Group& group, std::size_t bytes) {
  for (const auto deadline = Clock::now() + kNoticeDeadline; Clock::now() < deadline;) {
    try {
      Work work(Operation::AllReduce, group, pattern_of_round(0, group.size), bytes, 0);
      work.post(group);
      wait_for_stream(group, kNoticeDeadline);
    } catch (const CommunicatorBroke& broke) {
      return broke.what();
    }
  }
  throw Failure("all-reduces went on without one of the ranks");
}

void abort_in_time(Job& job, Group& group) {
  const Seconds took = abort_group(group);
  say(job, "aborted in %.3f s", took.count());
  if (took > kAbortDeadline) throw Failure("the abort took " + std::to_string(took.count()) + " s");
}

using Works = std::vector<std::unique_ptr<Work>>;

// More work than can be done at once.
static Works much_work(const Group& group, std::size_t bytes) {
  Works works;
  for (unsigned k = 0; k < 6; k++) {
    works.push_back(
        std::make_unique<Work>(Operation::AllReduce, group, pattern_of_round(k, group.size), bytes, 0));
    works.back()->fill_buffers();
  }
  return works;
}

// Leaves it under way.
static void post(const Works& works, const Group& group) {
  for (const auto& work : works) work->post(group);
}

void run_abort(Job& job, Group& group, std::size_t bytes, int aborter) {
  run_operations(job, group, Operation::AllReduce, bytes, 1);
  {
    const Works works = much_work(group, bytes);  // outlives the abort: the buffers are in use until then
    try {
      post(works, group);
      std::this_thread::sleep_for(20ms);
      if (cudaStreamQuery(group.stream) == cudaSuccess)
        throw Failure("nothing was in flight any more: the message is too short");
      if (aborter >= 0 && job.rank != aborter) {
        wait_for_stream(group, kNoticeDeadline);
        throw Failure("all work was done although a rank aborted before");
      }
    } catch (const CommunicatorBroke& broke) {  // another rank was faster
      if (job.rank == aborter) throw;
      say(job, "was told: %s", broke.what());
    }
    abort_in_time(job, group);
  }
  group = new_group(job);
  run_operations(job, group, Operation::AllReduce, bytes, 2);
}

void run_killed(Job& job, Group& group, std::size_t bytes, int victim) {
  const std::string note =
      job.id_file + ".killed";  // exists from just before the kill; its age is how long noticing took
  run_operations(job, group, Operation::AllReduce, bytes, 1);
  const Works works = much_work(group, bytes);
  if (job.rank == victim) {
    post(works, group);
    std::this_thread::sleep_for(20ms);
    std::ofstream(note) << Clock::now().time_since_epoch().count();
    kill(getpid(), SIGKILL);
  }
  std::string error;
  try {
    post(works, group);
    wait_for_stream(group, kNoticeDeadline);
    error = wait_for_error(group, bytes);
  } catch (const CommunicatorBroke& broke) {
    error = broke.what();
  }
  Clock::rep killed = 0;
  std::ifstream(note) >> killed;
  const Seconds took = Clock::now().time_since_epoch() - Clock::duration(killed);
  if (killed == 0) throw Failure("an asynchronous error before any rank was killed: " + error);
  say(job, "noticed=%.3f s after the kill: %s", took.count(), error.c_str());
  abort_in_time(job, group);
}

// ---- a long life

namespace {

struct Footprint {
  std::ptrdiff_t descriptors, threads, maps, resident_kib;
};

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{});
}

Footprint footprint() {
  Footprint f{.descriptors = entries_of("/proc/self/fd"), .threads = entries_of("/proc/self/task")};
  std::ifstream maps("/proc/self/maps"), memory("/proc/self/statm");
  for (std::string line; std::getline(maps, line);) f.maps++;
  std::ptrdiff_t pages = 0;
  memory >> pages >> pages;
  f.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
  return f;
}

// Threads that were told to end may still be on their way.
Footprint settled_footprint(const std::optional<Footprint>& before) {
  Footprint f = footprint();
  for (int i = 0; i < 200 && before && (f.threads > before->threads || f.descriptors > before->descriptors);
       i++) {
    std::this_thread::sleep_for(50ms);
    f = footprint();
  }
  return f;
}

}  // namespace

void run_lifecycle(Job& job, std::size_t bytes, int times) {
  const int warm = std::max(1, times / 10);  // caches and arenas fill in the first rounds
  std::optional<Footprint> before;
  for (int i = 0; i < times; i++) {
    Group group = new_group(job);
    Work work(Operation::AllReduce, group, pattern_of_round(static_cast<unsigned>(i), group.size), bytes, 0);
    work.fill_buffers();
    work.post(group);
    wait_for_stream(group, kOperationDeadline);
    if (const Mismatch m = work.check_buffers(); m.wrong)
      throw Failure("WRONG: " + work.description() + ": " + m.first);
    destroy(group);
    if (i + 1 == warm) before = settled_footprint(std::nullopt);
  }
  const Footprint after = settled_footprint(before);
  say(job,
      "%d communicators: descriptors %td -> %td, threads %td -> %td, maps %td -> %td, resident %td -> %td "
      "KiB",
      times, before->descriptors, after.descriptors, before->threads, after.threads, before->maps, after.maps,
      before->resident_kib, after.resident_kib);
  const std::ptrdiff_t rounds = times - warm;
  if (after.descriptors > before->descriptors + 1 || after.threads > before->threads + 1)
    throw Failure("descriptors or threads were left behind");
  if (rounds >= 20 && after.maps - before->maps > rounds / 2) throw Failure("memory maps were left behind");
  if (rounds >= 20 && after.resident_kib - before->resident_kib > rounds * 256)
    throw Failure("memory was left behind");
}

// ---- rails that fail

// Rank 0 decides, all learn: a maximum over the ranks.
static bool is_time_to_stop(const Group& group, bool stop) {
  const DeviceBuffer vote(sizeof(int));
  int value = stop;
  RIG_CHECK(cudaMemcpy(vote.data(), &value, sizeof value, cudaMemcpyHostToDevice));
  RIG_CHECK(ncclAllReduce(vote.data(), vote.data(), 1, ncclInt32, ncclMax, group.comm, group.stream));
  wait_for_stream(group, kOperationDeadline);
  RIG_CHECK(cudaMemcpy(&value, vote.data(), sizeof value, cudaMemcpyDeviceToHost));
  return value != 0;
}

void run_until(Job& job, Group& group, std::size_t bytes, const std::string& file) {
  Seconds longest{}, working{};
  auto reported = Clock::now();
  unsigned round = 0;
  for (; !is_time_to_stop(group, job.rank == 0 && std::filesystem::exists(file)); round++) {
    Work work(Operation::AllReduce, group, pattern_of_round(round, group.size), bytes, 0);
    work.fill_buffers();
    const auto start = Clock::now();
    work.post(group);
    wait_for_stream(group, kOperationDeadline);
    const Seconds took = Clock::now() - start;
    working += took;
    longest = std::max(longest, took);
    if (const Mismatch m = work.check_buffers(); m.wrong)
      throw Failure("WRONG: " + work.description() + ": " + m.first);
    if (Clock::now() - reported > 250ms) {
      reported = Clock::now();
      say(job, "round=%u", round + 1);
    }
  }
  say(job, "%u all-reduces of %zu bytes: right, longest=%.3f s, %.1f MB/s", round, bytes, longest.count(),
      static_cast<double>(bytes) * round / working.count() / 1e6);
}

}  // namespace megascale::rig
