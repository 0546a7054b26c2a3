#include "fabric_tools/lab/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/unit/complaint.h"

namespace megascale::lab {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using SteadyClock = std::chrono::steady_clock;

int wait_for(pid_t child) {
  auto end = SteadyClock::now() + 60s;
  while (SteadyClock::now() < end) {
    if (std::optional<int> status = reap_child(child)) return *status;
    std::this_thread::sleep_for(5ms);
  }
  return -1;
}

TEST(Process, KeepsOutputAndStatus) {
  CommandResult result = run_command({"sh", "-c", "cat; echo loud >&2; exit 3"}, "quiet\n");
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.output, HasSubstr("quiet"));
  EXPECT_THAT(result.output, HasSubstr("loud"));
}

TEST(Process, ArgumentsReachTheChildAsTheyAre) {
  EXPECT_EQ(run_command({"printf", "%s", "a b'; $HOME *"}).output, "a b'; $HOME *");
}

TEST(Process, ALongCommandIsKilledAtTheDeadline) {
  auto start = SteadyClock::now();
  CommandResult result = run_command({"sleep", "600"}, {}, 100ms);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_LT(SteadyClock::now() - start, 300s);
}

TEST(Process, MuchInputToOneWhoDoesNotReadIsNoTrap) {
  EXPECT_TRUE(run_command({"true"}, std::string(1 << 20, 'x')).ok());
}

TEST(Process, FailuresNameTheCommand) {
  EXPECT_EQ(run_command({"no-such-program-anywhere"}).status, 127);
  EXPECT_THAT(complaint<std::runtime_error>([] {
                must_run({"sh", "-c", "echo because; exit 4"});
              }),
              AllOf(HasSubstr("sh -c"), HasSubstr("status 4"), HasSubstr("because")));
  EXPECT_THROW(start_child({.argv = {"no-such-program-anywhere"}, .environment = {}, .output_file = {}}),
               std::runtime_error);
}

TEST(Process, AChildEndsWithAllThatItStarted) {
  std::string file = testing::TempDir() + "grandchild" + std::to_string(getpid());
  pid_t child = start_child({.argv = {"sh", "-c", "sleep 600 & echo $! > " + file + "; exit $CODE"},
                             .environment = {{"CODE", "9"}},
                             .output_file = {}});
  EXPECT_EQ(wait_for(child), 9);
  pid_t grandchild = 0;
  std::ifstream(file) >> grandchild;
  ASSERT_GT(grandchild, 1);
  // A zombie that nobody reaps still answers to kill(0); its state tells.
  std::string state;
  for (int i = 0; i < 1000; ++i) {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name;
    state = "gone";
    if (stat >> pid >> name >> state; state == "Z" || state == "gone") break;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(state == "Z" || state == "gone" || state.empty()) << state;
  unlink(file.c_str());
}

TEST(Process, ASignalIsToldFromAStatus) {
  pid_t child = start_child({.argv = {"sleep", "600"}, .environment = {}, .output_file = {}});
  EXPECT_FALSE(reap_child(child));
  kill(child, SIGKILL);
  EXPECT_EQ(wait_for(child), 128 + SIGKILL);
}

}  // namespace
}  // namespace megascale::lab
