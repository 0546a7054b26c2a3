#include "plugin/host/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/plugin/host/ranks.h"

namespace megascale::host {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

LocalLaunch shell(int ranks, const std::string& script) {
  LocalLaunch launch;
  launch.ranks = ranks;
  launch.program = "/bin/sh";
  launch.arguments = {"-c", script};
  launch.grace = 1s;
  return launch;
}

TEST(Launch, EachRankHasItsPlaceInItsEnvironment) {
  const auto result = local_ranks(shell(3, R"(
    [ "$MEGASCALE_RANKS" = 3 ] && [ "$MEGASCALE_LOCAL_RANK" = "$MEGASCALE_RANK" ] || exit 9
    case "$MEGASCALE_RENDEZVOUS" in 127.0.0.1:*) ;; *) exit 8 ;; esac
    case "$MEGASCALE_RANK" in 0|1|2) exit 0 ;; *) exit 7 ;; esac)"));
  EXPECT_EQ(result.exit_code, 0) << result.failure;
  EXPECT_EQ(result.failure, "");
}

TEST(Launch, AdditionalVariablesReplaceInherited) {
  const Variable inherited("TOY_COLOUR", "red");
  auto launch = shell(1, R"([ "$TOY_COLOUR" = blue ])");
  launch.environment = {"TOY_COLOUR=blue"};
  EXPECT_EQ(local_ranks(launch).exit_code, 0);
}

TEST(Launch, FirstFailureIsNamedAndTheOthersAreEnded) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = local_ranks(shell(3, R"([ "$MEGASCALE_RANK" = 1 ] && exit 5; exec sleep 600)"));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.failure, HasSubstr("rank 1 (process "));
  EXPECT_THAT(result.failure, HasSubstr("exit code 5"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

TEST(Launch, SignalIsNamed) {
  const auto result = local_ranks(shell(2, R"([ "$MEGASCALE_RANK" = 0 ] && kill -9 $$; exec sleep 600)"));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_THAT(result.failure, HasSubstr("rank 0"));
  EXPECT_THAT(result.failure, HasSubstr("signal 9"));
}

TEST(Launch, TheKilledIsNamedBeforeThoseThatGaveUpOnIt) {
  auto launch = shell(2, R"([ "$MEGASCALE_RANK" = 0 ] && exit 3; sleep 0.3; kill -9 $$)");
  launch.grace = 60s;
  const auto result = local_ranks(launch);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_THAT(result.failure, HasSubstr("rank 1"));
}

TEST(Launch, StubbornRanksAreKilled) {
  const auto result = local_ranks(
      shell(2, R"([ "$MEGASCALE_RANK" = 0 ] && exit 3; trap "" TERM; while :; do sleep 1; done)"));
  EXPECT_EQ(result.exit_code, 3);
}

TEST(Launch, SignalsArePassedOn) {
  std::thread caller([] {
    std::this_thread::sleep_for(300ms);
    kill(getpid(), SIGTERM);
  });
  const auto result = local_ranks(shell(2, "exec sleep 600"));
  caller.join();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
}

TEST(Launch, ProgramThatCannotStartIsAFailure) {
  auto launch = shell(1, "");
  launch.program = "/nowhere/at/all";
  EXPECT_EQ(local_ranks(launch).exit_code, 127);
}

}  // namespace
}  // namespace megascale::host
