// What happens when something breaks: who is named, how soon, and that nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "plugin/host/communicator.h"
#include "plugin/host/launch.h"
#include "plugin/host/loader.h"
#include "tests/unit/plugin/host/ranks.h"

namespace megascale::host {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

// Endless all-reduces in a process of its own, until the first error; its text goes to `to`.
[[noreturn]] void reduce_until_error(const CommunicatorOptions& options, int to) {
  std::string text = "no error";
  try {
    const auto c = Communicator::create(options);
    std::vector<float> data(100'000);
    if (write(to, "ready ", 6) != 6) _exit(1);
    for (;;) c->all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum).wait();
  } catch (const NetworkError& error) {
    text = "NetworkError " + std::to_string(error.rank()) + " " + error.what();
  } catch (const std::exception& error) {
    text = error.what();
  }
  const ssize_t written = write(to, text.data(), text.size());
  _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

struct Process {
  pid_t pid;
  int from;
};

Process fork_rank(CommunicatorOptions options, int rank) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  options.rank = rank;
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    reduce_until_error(options, ends[1]);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

std::string read_all(int from) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  return text;
}

TEST(Failure, KilledRankIsNamedByEveryOtherAndSoon) {
  constexpr int ranks = 4;
  for (int victim : {0, 2}) {
    CommunicatorOptions options{.ranks = ranks, .rendezvous = free_rendezvous(), .plugin = any_plugin()};
    std::vector<Process> processes;
    for (int rank = 0; rank < ranks; ++rank) processes.push_back(fork_rank(options, rank));
    for (const Process& p : processes) {
      char ready[6];
      ASSERT_EQ(read(p.from, ready, sizeof ready), 6);
    }
    std::this_thread::sleep_for(200ms);
    kill(processes[static_cast<size_t>(victim)].pid, SIGKILL);
    const auto killed = Clock::now();
    for (int rank = 0; rank < ranks; ++rank) {
      const Process& p = processes[static_cast<size_t>(rank)];
      const std::string error = read_all(p.from);
      close(p.from);
      waitpid(p.pid, nullptr, 0);
      if (rank == victim) continue;
      EXPECT_THAT(error, HasSubstr("NetworkError " + std::to_string(victim) + " "));
      EXPECT_THAT(error, HasSubstr("rank " + std::to_string(victim)));
    }
    EXPECT_LT(Clock::now() - killed, 10s);  // a second is promised
  }
}

TEST(Failure, ErrorOfThePluginReachesAllAndStays) {
  const Variable fail("TOY_FAIL_AFTER", "5");
  const auto errors = errors_of_ranks(3, {.plugin = toy(10)}, [](Communicator& c) {
    int x = 1;
    std::string first;
    for (int i = 0; i < 100 && first.empty(); ++i) {
      try {
        c.all_reduce(&x, &x, 1, DataType::i32, ReduceOp::sum).wait();
      } catch (const NetworkError& error) {
        first = error.what();
      }
    }
    EXPECT_THAT(first, HasSubstr("isend failed with ncclSystemError (2)"));
    EXPECT_THROW(c.barrier(), NetworkError);
    EXPECT_THROW(c.send(&x, sizeof x, 0), NetworkError);
  });
  EXPECT_THAT(errors, testing::Each("no error"));
}

TEST(Failure, DifferentSizesAreExplained) {
  const auto errors = errors_of_ranks(2, {.plugin = any_plugin()}, [](Communicator& c) {
    std::vector<uint8_t> data(1000);
    if (c.rank() == 0) {
      c.send(data.data(), 10, 1).wait();
      c.barrier().wait();
    } else {
      c.recv(data.data(), 1000, 0).wait();
    }
  });
  EXPECT_THAT(errors[1], HasSubstr("has 10 bytes where 1000 were expected"));
  EXPECT_THAT(errors[0], HasSubstr("where 1000 were expected"));
}

TEST(Failure, OutstandingHandlesOutliveTheCommunicator) {
  Work left;
  std::promise<void> through;  // rank 0 must not find rank 1 gone while it still waits in the barrier
  const auto errors = errors_of_ranks(2, {.plugin = toy(12)}, [&](Communicator& c) {
    static int x;
    if (c.rank() == 0) left = c.recv(&x, sizeof x, 1);
    c.barrier().wait();
    if (c.rank() == 0) through.set_value();
    else through.get_future().wait_for(10s);
  });
  EXPECT_THAT(errors, testing::Each("no error"));
  EXPECT_THROW(left.wait(), NetworkError);
  EXPECT_THROW(left.done(), NetworkError);
}

TEST(Failure, AbortOfOneEndsTheWaitOfAll) {
  const auto errors = errors_of_ranks(3, {.plugin = any_plugin()}, [](Communicator& c) {
    if (c.rank() == 1) {
      std::this_thread::sleep_for(100ms);
      c.abort("the disk is full");
    }
    c.barrier().wait();
  });
  EXPECT_THAT(errors, testing::Each(HasSubstr("rank 1 aborted: the disk is full")));
}

TEST(Failure, WaitInWhichNothingMovesEnds) {
  const auto errors = errors_of_ranks(2, {.plugin = any_plugin(), .stall_timeout = std::chrono::seconds(1)},
                                      [](Communicator& c) {
                                        if (c.rank() == 0) c.barrier().wait();
                                        if (c.rank() == 1) std::this_thread::sleep_for(3s);
                                      });
  EXPECT_THAT(errors[0], HasSubstr("waited 1 s in barrier and not a byte moved"));
}

TEST(Failure, DifferentOptionsAndPluginsAreRefused) {
  for (const bool plugins : {false, true}) {
    const std::string rendezvous = free_rendezvous();
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        CommunicatorOptions options{.rank = rank, .ranks = 2, .rendezvous = rendezvous, .plugin = toy(12)};
        if (rank == 1 && plugins) options.plugin = toy(11);
        if (rank == 1 && !plugins) options.rings = 2;
        try {
          Communicator::create(options);
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(rank)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) {
      EXPECT_THAT(error, HasSubstr(plugins ? "uses the network plugin Toy1" : "and 2 rings"));
    }
  }
}

TEST(Failure, NothingIsLeftInThePluginAfterAnAbort) {
  const auto kept = open_net(toy(12));
  const ToyCounters counters(12);
  errors_of_ranks(3, {.plugin = toy(12)}, [](Communicator& c) {
    std::vector<float> data(1'000'000);
    auto work = c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum);
    if (c.rank() == 0) c.abort("enough");
    work.wait();
  });
  EXPECT_EQ(counters->comms, 0);
  EXPECT_EQ(counters->listeners, 0);
  EXPECT_EQ(counters->regions, 0);
  EXPECT_EQ(counters->contexts, 0);
}

}  // namespace
}  // namespace megascale::host
