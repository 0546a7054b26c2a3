#include "transport/base/log.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace megascale {
namespace {

struct Line {
  Level level;
  std::string text;
};
std::mutex mutex;
std::vector<Line> lines;

void keep(Level level, const char* text) {
  const std::lock_guard lock(mutex);
  lines.push_back({level, text});
}

class Log : public testing::Test {
 protected:
  void SetUp() override {
    lines.clear();
    log_to(keep);
  }
  void TearDown() override {
    log_to(nullptr);
    log_up_to(Level::info);
  }
};

TEST_F(Log, FormatsALineForTheSink) {
  logf(Level::warn, "rail %s lost %d links", "eth0", 3);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].level, Level::warn);
  EXPECT_EQ(lines[0].text, "rail eth0 lost 3 links");
}

TEST_F(Log, LevelsAboveTheLimitAreNotWritten) {
  logf(Level::trace, "hidden");
  log_up_to("trace");
  logf(Level::trace, "shown");
  log_up_to("warn");
  logf(Level::info, "hidden");
  log_up_to("deafening");
  EXPECT_FALSE(logs(Level::info));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text, "shown");
}

TEST_F(Log, ALongLineIsCut) {
  logf(Level::info, "%s", std::string(10'000, 'x').c_str());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LT(lines[0].text.size(), 2100u);
  EXPECT_TRUE(lines[0].text.ends_with("x ..."));
}

TEST_F(Log, LeavesErrnoAlone) {
  errno = ENOTCONN;
  logf(Level::info, "x");
  EXPECT_EQ(errno, ENOTCONN);
}

TEST_F(Log, GoesToStandardErrorByDefaultOneLineEach) {
  log_to(nullptr);
  testing::internal::CaptureStderr();
  logf(Level::info, "hello %d", 1);
  logf(Level::info, "%s", std::string(10'000, 'x').c_str());
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("megascale: hello 1\nmegascale: xxx")) << text.substr(0, 100);
  EXPECT_TRUE(text.ends_with("x ...\n"));
}

TEST_F(Log, TakesLinesFromManyThreadsWhileTheSinkChanges) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) {
        logf(Level::info, "thread %d line %d", t, i);
        if (i % 50 == 0) log_to(keep);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(lines.size(), 2000u);
}

}  // namespace
}  // namespace megascale
