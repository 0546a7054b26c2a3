// One or several ranks of an NCCL job that checks every element it gets: nccl_rank --help.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/rig/nccl/rank/operations.h"
#include "tests/rig/nccl/rank/scenarios.h"

namespace megascale::rig {

constexpr const char* kHelp =
    "nccl_rank --rank R --ranks N --id FILE [--threads T] STEP...\n"
    "  Rank R (and the T-1 after it, each a thread with a device of its own) of N; communicators' ids travel "
    "in FILE.*\n"
    "  Steps, in order; sizes may end in K or M:\n"
    "    all_reduce|all_gather|reduce_scatter|broadcast|reduce|send_recv|all_to_all:BYTES:ROUNDS\n"
    "    group:BYTES:ROUNDS      67 operations at once, over all types and reductions\n"
    "    split:BYTES:SHARE       sub-communicators, with (1) or without (0) shared resources\n"
    "    abort:BYTES:RANK        abort with traffic in flight, by one rank or (-1) by all; then a new "
    "communicator\n"
    "    killed:BYTES:RANK       that rank kills itself with traffic in flight; the last step\n"
    "    lifecycle:BYTES:TIMES   create, use and destroy communicators\n"
    "    until:BYTES:FILE        all-reduces until FILE exists\n"
    "  Exits 0 when every element was right and nothing failed, 1 when not, 2 when called wrongly.\n";

struct WrongCall : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  Job job;
  int threads = 1;
  std::vector<std::vector<std::string>> steps;  // each split at its colons
};

static std::vector<std::string> split_at_colons(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = parts.size() == 2 ? text.size() : std::min(text.find(':', from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

static long number(const std::string& text, long lowest, long highest) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || value < lowest || value > highest)
    throw WrongCall("'" + text + "' is no number from " + std::to_string(lowest) + " to " +
                    std::to_string(highest));
  return value;
}

static std::size_t size_in_bytes(std::string text) {
  long unit = 1;
  if (!text.empty() && text.back() == 'K') unit = 1L << 10;
  if (!text.empty() && text.back() == 'M') unit = 1L << 20;
  if (unit > 1) text.pop_back();
  return static_cast<std::size_t>(number(text, 0, (1L << 33) / unit) * unit);
}

static Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg.rfind("--", 0) != 0) {
      o.steps.push_back(split_at_colons(arg));
      if (o.steps.back().size() != 3)
        throw WrongCall("step '" + arg + "' does not have the form NAME:BYTES:VALUE");
      continue;
    }
    if (++i == argc) throw WrongCall(arg + " wants a value");
    if (arg == "--rank") o.job.rank = static_cast<int>(number(argv[i], 0, 1023));
    else if (arg == "--ranks") o.job.ranks = static_cast<int>(number(argv[i], 1, 1024));
    else if (arg == "--threads") o.threads = static_cast<int>(number(argv[i], 1, 16));
    else if (arg == "--id") o.job.id_file = argv[i];
    else throw WrongCall("there is no option " + arg);
  }
  if (o.job.id_file.empty() || o.steps.empty()) throw WrongCall("--id and at least one step are needed");
  if (o.job.rank + o.threads > o.job.ranks)
    throw WrongCall("there are fewer ranks than --rank and --threads say");
  return o;
}

static void run_step(Job& job, Group& group, const std::vector<std::string>& step) {
  const std::string& name = step[0];
  const std::size_t bytes = size_in_bytes(step[1]);
  const auto value = [&] { return static_cast<int>(number(step[2], -1, 1'000'000)); };
  if (const auto operation = operation_named(name)) run_operations(job, group, *operation, bytes, value());
  else if (name == "group") run_groups(job, group, bytes, value());
  else if (name == "split") run_split(job, group, bytes, value() == 1);
  else if (name == "abort") run_abort(job, group, bytes, value());
  else if (name == "killed") run_killed(job, group, bytes, value());
  else if (name == "lifecycle") run_lifecycle(job, bytes, value());
  else if (name == "until") run_until(job, group, bytes, step[2]);
  else throw WrongCall("there is no step '" + name + "'");
}

static void run_steps(Job& job, Group& group, const std::vector<std::vector<std::string>>& steps) {
  for (const auto& step : steps) {
    if (!group.comm && step[0] != "lifecycle") group = new_group(job);
    run_step(job, group, step);
  }
  if (!group.comm) return;
  ncclResult_t error = ncclSuccess;
  RIG_CHECK(ncclCommGetAsyncError(group.comm, &error));
  if (error != ncclSuccess)
    throw CommunicatorBroke(std::string("asynchronous error: ") + ncclGetErrorString(error));
  destroy(group);
}

static int run_rank(Job job, const std::vector<std::vector<std::string>>& steps) {
  Group group;
  try {
    RIG_CHECK(cudaSetDevice(job.device));
    try {
      run_steps(job, group, steps);
    } catch (const CommunicatorBroke& broke) {
      say(job, "FAILED: %s", broke.what());
      abort_in_time(job, group);
      return 1;
    }
    say(job, "finished");
    return 0;
  } catch (const WrongCall& wrong) {
    std::fprintf(stderr, "nccl_rank: %s\n%s", wrong.what(), kHelp);
    return 2;
  } catch (const std::exception& failure) {
    say(job, "FAILED: %s", failure.what());
    return 1;
  }
}

static int run(const Options& o) {
  if (o.threads == 1) return run_rank(o.job, o.steps);
  std::vector<int> results(static_cast<std::size_t>(o.threads));
  std::vector<std::thread> threads;
  for (int t = 0; t < o.threads; t++) {
    Job job = o.job;
    job.rank += t;
    job.device = t;
    threads.emplace_back(
        [&results, &o, job, t] { results[static_cast<std::size_t>(t)] = run_rank(job, o.steps); });
  }
  for (auto& thread : threads) thread.join();
  for (const int result : results)
    if (result) return result;
  return 0;
}

}  // namespace megascale::rig

int main(int argc, char** argv) {
  using namespace megascale::rig;
  if (argc == 2 && !std::strcmp(argv[1], "--help")) return std::fputs(kHelp, stdout), 0;
  try {
    const Options options = parse(argc, argv);
    const int result = run(options);
    // After a failure the communicators of a process are in an unknown state: no destructor is to wait for
    // them.
    if (result) std::fflush(nullptr), std::_Exit(result);
    return result;
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "nccl_rank: %s\n%s", wrong.what(), kHelp);
    return 2;
  }
}
