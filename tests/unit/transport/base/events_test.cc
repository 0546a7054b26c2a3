#include "transport/base/events.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/unit/transport/base/scratch.h"
#include "transport/base/json.h"

namespace megascale {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    all.push_back(json::parse(line, nullptr, false));
    EXPECT_FALSE(all.back().is_discarded()) << line;
  }
  return all;
}

class Events : public testing::Test {
 protected:
  void TearDown() override { close_events(); }
  std::vector<json> written() { return lines_of(scratch_.read("e.jsonl")); }
  std::string file() const { return scratch_.path("e.jsonl"); }
  Scratch scratch_;
};

TEST_F(Events, WithoutAFileNothingHappens) {
  EXPECT_FALSE(events_on());
  Event("flap").with("rail", "eth0").emit();
}

TEST_F(Events, ALineSaysWhenWhoAndWhat) {
  ASSERT_EQ(open_events(file(), 7), "");
  const std::string rail = "eth0";
  Event("flap")
      .with("rail", rail)
      .with("fenced", 3u)
      .with("ms", 1.5)
      .with("home", true)
      .with("left", -1)
      .emit();
  const auto lines = written();
  ASSERT_EQ(lines.size(), 1u);
  const json& e = lines[0];
  EXPECT_EQ(e["event"], "flap");
  EXPECT_EQ(e["rail"], "eth0");
  EXPECT_EQ(e["fenced"], 3);
  EXPECT_EQ(e["ms"], 1.5);
  EXPECT_EQ(e["home"], true);
  EXPECT_EQ(e["left"], -1);
  EXPECT_EQ(e["pid"], getpid());
  EXPECT_EQ(e["rank"], 7);
  EXPECT_GT(e["mono_ns"].get<int64_t>(), 0);
  std::string shape = e["time"].get<std::string>();
  std::replace_if(
      shape.begin(), shape.end(), [](char c) { return c >= '0' && c <= '9'; }, '0');
  EXPECT_EQ(shape, "0000-00-00T00:00:00.000Z");
}

TEST_F(Events, TheWallTimeIsNow) {
  ASSERT_EQ(open_events(file(), -1), "");
  const time_t before = time(nullptr);
  Event("x").emit();
  const time_t after = time(nullptr);
  std::tm tm{};
  ASSERT_NE(strptime(written()[0]["time"].get<std::string>().c_str(), "%Y-%m-%dT%H:%M:%S", &tm), nullptr);
  EXPECT_GE(timegm(&tm), before);
  EXPECT_LE(timegm(&tm), after);
}

TEST_F(Events, AnEventIsWrittenOnce) {
  ASSERT_EQ(open_events(file(), 0), "");
  Event e("x");
  e.emit();
  e.emit();
  EXPECT_EQ(written().size(), 1u);
}

TEST_F(Events, StringsAreEscapedAndCutAndAlwaysJson) {
  ASSERT_EQ(open_events(file(), 0), "");
  const std::string every = [] {
    std::string s;
    for (int c = 0; c < 256; ++c) s += static_cast<char>(c);
    return s;
  }();
  Event("x")
      .with("quote", "a\"b\\c\nd\te\x01")
      .with("utf8", "gr\u00fc\u00df \u20ac \U0001f600")
      .with("every", every)
      .with("broken", std::string_view("\xc3(\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf\xe2\x82"))
      .with("long", std::string(10'000, 'x'))
      .with(std::string_view("k\"ey"), 1)
      .emit();
  const auto lines = written();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["quote"], "a\"b\\c\nd\te\x01");
  EXPECT_EQ(lines[0]["utf8"], "gr\u00fc\u00df \u20ac \U0001f600");
  EXPECT_EQ(lines[0]["long"].get<std::string>().size(), 4096u);
  EXPECT_EQ(lines[0]["k\"ey"], 1);
}

TEST_F(Events, NumbersThatJsonCannotSayAreNull) {
  ASSERT_EQ(open_events(file(), 0), "");
  Event("x")
      .with("nan", std::nan(""))
      .with("inf", std::numeric_limits<double>::infinity())
      .with("small", 5e-324)
      .with("third", 1.0 / 3)
      .with("most", UINT64_MAX)
      .with("least", INT64_MIN)
      .emit();
  const json e = written().at(0);
  EXPECT_TRUE(e["nan"].is_null());
  EXPECT_TRUE(e["inf"].is_null());
  EXPECT_EQ(e["small"].get<double>(), 5e-324);
  EXPECT_EQ(e["third"].get<double>(), 1.0 / 3);
  EXPECT_EQ(e["most"].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(e["least"].get<int64_t>(), INT64_MIN);
}

TEST_F(Events, TheNameHoldsProcessAndRank) {
  ASSERT_EQ(open_events(scratch_.path("%r-%p-100%%-%x"), 5), "");
  const std::string name = "5-" + std::to_string(getpid()) + "-100%-%x";
  Event("x").emit();
  EXPECT_EQ(lines_of(scratch_.read(name)).size(), 1u);
  ASSERT_EQ(open_events(scratch_.path("r-%r"), -1), "");
  Event("x").emit();
  EXPECT_EQ(lines_of(scratch_.read("r-none")).size(), 1u);
  EXPECT_EQ(lines_of(scratch_.read(name)).size(), 1u) << "the first file is closed";
}

TEST_F(Events, AppendsToWhatIsThere) {
  scratch_.write("e.jsonl", "{\"event\":\"old\"}\n");
  ASSERT_EQ(open_events(file(), 0), "");
  ASSERT_EQ(open_events(file(), 0), "");
  Event("new").emit();
  EXPECT_EQ(written().size(), 2u);
}

TEST_F(Events, AFileThatCannotBeOpenedIsNamed) {
  ASSERT_EQ(mkfifo(scratch_.path("fifo").c_str(), 0600), 0);
  for (const std::string& name :
       {scratch_.path("no/such/directory"), scratch_.path("fifo"), scratch_.path(".")}) {
    const std::string why = open_events(name, 0);
    EXPECT_NE(why.find(name), std::string::npos) << why;
    EXPECT_FALSE(events_on());
  }
}

TEST_F(Events, AFullDiskLosesEventsAndCountsThem) {
  const uint64_t before = events_lost();
  ASSERT_EQ(open_events("/dev/full", 0), "");
  Event("x").emit();
  EXPECT_EQ(events_lost(), before + 1);
}

TEST_F(Events, ThreadsAndProcessesShareAFileLineByLine) {
  constexpr int kThreads = 4, kEach = 200;
  ASSERT_EQ(open_events(file(), 0), "");
  const auto emit_many = [](int who) {
    for (int i = 0; i < kEach; ++i) Event("x").with("who", who).with("pad", std::string(300, 'p')).emit();
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    emit_many(-1);
    _exit(0);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(emit_many, t);
  for (std::thread& t : threads) t.join();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);

  std::map<int, int> seen;
  std::map<int64_t, int> processes;
  for (const json& e : written()) {
    ++seen[e["who"].get<int>()];
    ++processes[e["pid"].get<int64_t>()];
  }
  EXPECT_EQ(seen.size(), kThreads + 1u);
  for (const auto& [who, n] : seen) EXPECT_EQ(n, kEach) << who;
  EXPECT_EQ(processes.size(), 2u);
}

TEST_F(Events, TheFileMayBeClosedAndOpenedUnderWriters) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) Event("x").with("n", 1).emit();
    });
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(open_events(file(), 0), "");
    close_events();
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  written();  // every line is whole
}

}  // namespace
}  // namespace megascale
