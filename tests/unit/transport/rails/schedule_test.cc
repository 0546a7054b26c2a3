// Ten thousand schedules of everything a link can do wrong, and the proof that each protection is needed.
//
// RAILS_SEEDS=first:count runs others; RAILS_SEEDS=1234:1 runs one that failed again.
#include "tests/unit/transport/rails/schedule.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "transport/base/log.h"

namespace megascale {
namespace {

struct Seeds {
  uint64_t first = 1, count = 10'000;
};

Seeds seeds() {
  Seeds s;
  if (const char* wanted = std::getenv("RAILS_SEEDS")) {
    unsigned long first = 0, count = 0;
    if (std::sscanf(wanted, "%lu:%lu", &first, &count) != 2 || !count) {
      ADD_FAILURE() << "RAILS_SEEDS=" << wanted << " is not FIRST:COUNT";
      return {1, 1};
    }
    s = {first, count};
    if (count == 1) log_up_to(Level::trace);
  }
  return s;
}

std::string rerun(uint64_t seed) { return "; run it again with RAILS_SEEDS=" + std::to_string(seed) + ":1"; }

class Schedules : public testing::Test {
 protected:
  void SetUp() override { log_up_to(Level::warn); }
  void TearDown() override { log_up_to(Level::info); }
};

TEST_F(Schedules, byte_for_byte_and_every_message_once) {
  auto [first, count] = seeds();
  Happened all;
  uint64_t messages = 0;
  int bad = 0;
  for (uint64_t seed = first; seed < first + count && bad < 5; seed++) {
    Verdict v = run_schedule(seed);
    all += v.happened;
    messages += v.messages;
    if (v.good()) continue;
    bad++;
    ADD_FAILURE() << "seed " << seed << ": " << v.what << rerun(seed);
  }
  std::printf(
      "%lu messages, %lu chunks; %lu lost, %lu twice; %lu ends broken (%lu with the other unaware, %lu by "
      "reset, %lu by silence), %lu fenced; dead links told %lu things, %lu of them lies, %lu repeated, "
      "wrote %lu pieces, and were kept from writing %lu\n",
      messages, all.chunks, all.lost, all.duplicates, all.broken, all.one_ended, all.resets, all.silences,
      all.fences, all.dead_reports, all.lies, all.repeats, all.writes_after_break, all.writes_prevented);
  if (count < 500) return;
  // None of what a link may do was spared.
  for (uint64_t n : {all.lost, all.duplicates, all.one_ended, all.resets, all.silences, all.lies, all.repeats,
                     all.writes_after_break, all.writes_prevented, all.dead_reports})
    EXPECT_GT(n, count / 100);
}

// Without one of the protections the same schedules must harm the user's memory.
void expect_harm(LeaveOut out, const char* what) {
  auto [first, count] = seeds();
  if (count < 500) GTEST_SKIP() << "so few schedules prove nothing";
  for (uint64_t seed = first; seed < first + count; seed++) {
    Verdict v = run_schedule(seed, out);
    if (!v.corrupt()) continue;
    std::printf("without %s, seed %lu: %s\n", what, seed, v.what.c_str());
    return;
  }
  ADD_FAILURE() << "leaving out " << what << " made no difference in " << count << " schedules";
}

TEST_F(Schedules, fail_without_the_fence) { expect_harm({.fence = true}, "the fence"); }
TEST_F(Schedules, fail_without_the_generation_check) {
  expect_harm({.generation = true}, "the generation check");
}
TEST_F(Schedules, fail_without_the_deduplication) { expect_harm({.duplicates = true}, "the de-duplication"); }

}  // namespace
}  // namespace megascale
