#include "fabric_tools/lab/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/complaint.h"

namespace megascale::lab {
namespace {

using testing::HasSubstr;

constexpr Shape kShape{.hosts = 2, .rails = 2, .ranks = 4};

std::string complaint_about(const std::string& text) {
  return complaint([&] { parse_schedule(text, "f.toml", kShape); });
}

TEST(Schedule, ReadsEachKindOfFault) {
  Schedule schedule = parse_schedule(R"(
[[fault]]
kind = "drop"
hosts = [1, 0, 1]
rails = 1
at = 10
for = 2.5
[[fault]]
kind = "blackhole_host"
hosts = 1
[[fault]]
kind = "sigkill"
rank = 3
at = 0.25
after_file = "go"
)",
                                     "f.toml", kShape);
  ASSERT_EQ(schedule.faults.size(), 3u);
  const Fault& drop = schedule.faults[0];
  EXPECT_EQ(drop.kind, FaultKind::drop);
  EXPECT_EQ(drop.hosts, (std::vector<int>{0, 1}));
  EXPECT_EQ(drop.rails, (std::vector<int>{1}));
  EXPECT_EQ(drop.at, Duration(10s));
  EXPECT_EQ(drop.lasts, Duration(2500ms));
  EXPECT_EQ(schedule.faults[1].rails, (std::vector<int>{0, 1})) << "a host gone is all its rails gone";
  EXPECT_FALSE(schedule.faults[1].lasts);
  EXPECT_EQ(schedule.faults[2].rank, 3);
  EXPECT_EQ(schedule.faults[2].after_file, "go");
}

TEST(Schedule, AFileCanBeWaitedForByAll) {
  const char* text = "after_file = \"here\"\n[[fault]]\nkind = \"kill\"\n[rotate]\nkinds = [\"down\"]\n";
  Schedule schedule = parse_schedule(text, "f.toml", kShape);
  EXPECT_EQ(schedule.faults[0].after_file, "here");
  EXPECT_EQ(schedule.rotation->after_file, "here");
  EXPECT_EQ(parse_schedule(text, "f.toml", kShape, "there").faults[0].after_file, "there");
}

TEST(Schedule, ComplaintsNameFileAndLine) {
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"drop\"\nat = -1\n"), HasSubstr("f.toml:3: `at` must be"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"drop\"\nat = nan\n"), HasSubstr("f.toml:3:"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"flood\"\n"), HasSubstr("f.toml:2: a fault's kind is"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"drop\"\nrail = 1\n"), HasSubstr("unknown key `rail`"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"drop\"\nrails = [2]\n"),
              HasSubstr("0 to 1 in this fabric"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"drop\"\nrails = []\n"), HasSubstr("empty"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"drop\"\nhosts = \"all\"\n"), HasSubstr("f.toml:3:"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"sigkill\"\nrank = 4\n"), HasSubstr("0 to 3"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"sigkill\"\n"), HasSubstr("lacks `rank`"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"kill\"\nfor = 1\n"), HasSubstr("takes no `for`"));
  EXPECT_THAT(complaint_about("[[fault]]\nkind = \"blackhole_host\"\n"), HasSubstr("lacks `hosts`"));
  EXPECT_THAT(complaint_about("[[fault]]\n"), HasSubstr("lacks `kind`"));
  EXPECT_THAT(complaint_about("[fault]\nkind = \"drop\"\n"), HasSubstr("[[fault]]"));
  EXPECT_THAT(complaint_about("[rotate]\nevery = 1\nfor = 1\nkinds = [\"drop\"]\n"),
              HasSubstr("less than `every`"));
  EXPECT_THAT(complaint_about("[rotate]\nkinds = [\"sigkill\"]\n"), HasSubstr("cannot be undone"));
  EXPECT_THAT(complaint_about("[[fault]\n"), HasSubstr("f.toml:1:"));
  EXPECT_THAT(complaint_about("\n[[["), HasSubstr("f.toml:2:"));
  EXPECT_THAT(complaint_about(""), HasSubstr("neither"));
  EXPECT_THROW(read_schedule("/nonexistent/f.toml", kShape), std::invalid_argument);
}

std::vector<Step> play_until(Timeline& timeline, Duration end) {
  std::vector<Step> steps;
  while (std::optional<Step> step = timeline.pop_due(end)) steps.push_back(*step);
  return steps;
}

TEST(Timeline, BeginsAndEndsInOrderOfTime) {
  Timeline timeline(parse_schedule(
      "[[fault]]\nkind = \"drop\"\nat = 1\nfor = 5\n[[fault]]\nkind = \"down\"\nat = 2\nfor = 1\n", "f",
      kShape));
  EXPECT_EQ(timeline.next(), Duration(1s));
  EXPECT_FALSE(timeline.pop_due(999ms));
  std::vector<Step> steps = play_until(timeline, 100s);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_TRUE(steps[0].begin && steps[0].fault.kind == FaultKind::drop);
  EXPECT_TRUE(steps[1].begin && steps[1].fault.kind == FaultKind::down);
  EXPECT_TRUE(!steps[2].begin && steps[2].id == steps[1].id);
  EXPECT_TRUE(!steps[3].begin && steps[3].id == steps[0].id);
  EXPECT_FALSE(timeline.next());
}

TEST(Timeline, CountsFromTheFilesAppearance) {
  Timeline timeline(parse_schedule("after_file = \"go\"\n[[fault]]\nkind = \"kill\"\nat = 2\n", "f", kShape));
  EXPECT_FALSE(timeline.next());
  EXPECT_EQ(timeline.awaited_files(), std::vector<std::string>{"go"});
  timeline.file_appeared("go", 7s);
  EXPECT_TRUE(timeline.awaited_files().empty());
  EXPECT_EQ(timeline.next(), Duration(9s));
  EXPECT_EQ(timeline.faults_to_come(), 1u);
  EXPECT_TRUE(timeline.pop_due(9s));
  EXPECT_EQ(timeline.faults_to_come(), 0u);
}

TEST(Timeline, RotationMeetsEveryKindOnEveryRail) {
  Timeline timeline(
      parse_schedule("[rotate]\nevery = 1\nfor = 0.5\nkinds = [\"drop\", \"kill\"]\n", "f", kShape));
  std::vector<std::pair<FaultKind, int>> begun;
  int ended = 0;
  for (int second = 0; second < 5; ++second) {
    for (const Step& step : play_until(timeline, std::chrono::seconds(second) + 600ms)) {
      if (step.begin) begun.emplace_back(step.fault.kind, step.fault.rails.at(0));
      ended += step.begin ? 0 : 1;
    }
  }
  using enum FaultKind;
  EXPECT_EQ(begun,
            (std::vector<std::pair<FaultKind, int>>{{drop, 0}, {drop, 1}, {kill, 0}, {kill, 1}, {drop, 0}}));
  EXPECT_EQ(ended, 3) << "what is killed does not end";
}

TEST(Timeline, ATurnThatWasMissedIsNotMadeUpFor) {
  Timeline timeline(parse_schedule("[rotate]\nevery = 1\nkinds = [\"kill\"]\n", "f", kShape));
  int begun = 0;
  for (const Step& step : play_until(timeline, 0s)) begun += step.begin;
  EXPECT_EQ(begun, 1);
  begun = 0;
  while (std::optional<Step> step = timeline.pop_due(1000s)) {
    if (++begun > 2) break;
  }
  EXPECT_LE(begun, 2) << "a stopped machine must not make up for a thousand turns";
}

}  // namespace
}  // namespace megascale::lab
