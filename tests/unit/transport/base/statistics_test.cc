#include "transport/base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/unit/transport/base/scratch.h"
#include "transport/base/events.h"

namespace megascale {
namespace {

TEST(Statistics, OneSetOfCountersARailForThreadsThatAskAtOnce) {
  constexpr int kThreads = 4, kRails = 20, kEach = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < kEach; ++i) {
        RailStatistics& s = statistics_for("shared" + std::to_string(i % kRails));
        count(s.messages_sent);
        count(s.bytes_sent, 10);
        s.lost(2ms);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (int r = 0; r < kRails; ++r) {
    RailStatistics& s = statistics_for("shared" + std::to_string(r));
    EXPECT_EQ(s.messages_sent, unsigned{kThreads * kEach / kRails});
    EXPECT_EQ(s.bytes_sent, 10u * kThreads * kEach / kRails);
    EXPECT_EQ(s.time_lost(), 2ms * kThreads * kEach / kRails);
    EXPECT_EQ(&s, &statistics_for(s.name));
  }
}

TEST(Statistics, RoundTripsKeepTheLeastTheLastAndAMean) {
  RailStatistics s("rtt");
  EXPECT_EQ(s.rtt_min(), 0ns) << "nothing measured yet";
  s.saw_rtt(80us);
  EXPECT_EQ(s.rtt_smoothed(), 80us);
  s.saw_rtt(160us);
  s.saw_rtt(40us);
  EXPECT_EQ(s.rtt_min(), 40us);
  EXPECT_EQ(s.rtt_last(), 40us);
  EXPECT_EQ(s.rtt_smoothed(), 83750ns) << "80, then 90, then 83.75";
}

TEST(Statistics, LostTimeNeverRunsBackwards) {
  RailStatistics s("lost");
  s.lost(5ms);
  s.lost(-3ms);
  EXPECT_EQ(s.time_lost(), 5ms);
}

TEST(Statistics, TheTableIsAlignedAndNamesEveryRail) {
  RailStatistics& s = statistics_for("table0");
  count(s.bytes_sent, 1'500'000'000);
  count(s.flaps, 2);
  s.lost(1234ms);
  statistics_for("a-rail-with-a-long-name");
  std::istringstream table(summary_table());
  std::vector<std::string> rows;
  for (std::string row; std::getline(table, row);) rows.push_back(row);
  ASSERT_GE(rows.size(), 3u);
  for (const std::string& row : rows) EXPECT_EQ(row.size(), rows[0].size()) << row;
  const auto of_table0 = [](const std::string& row) { return row.starts_with("table0 "); };
  const auto row = std::find_if(rows.begin(), rows.end(), of_table0);
  ASSERT_NE(row, rows.end());
  EXPECT_NE(row->find("1.50 GB"), std::string::npos) << *row;
  EXPECT_NE(row->find("1234"), std::string::npos) << *row;
}

TEST(Statistics, EachRailBecomesAnEvent) {
  const Scratch scratch;
  ASSERT_EQ(open_events(scratch.path("e"), 1), "");
  RailStatistics& s = statistics_for("event0");
  count(s.bytes_received, 77);
  count(s.chunks_replayed, 3);
  s.saw_rtt(1500ns);
  emit_statistics();
  close_events();

  std::istringstream in(scratch.read("e"));
  bool found = false;
  for (std::string line; std::getline(in, line);) {
    const auto e = nlohmann::json::parse(line);
    EXPECT_EQ(e["event"], "rail");
    if (e["rail"] != "event0") continue;
    found = true;
    EXPECT_EQ(e["bytes_received"], 77);
    EXPECT_EQ(e["replayed_chunks"], 3);
    EXPECT_EQ(e["rtt_us"], 1.5);
    EXPECT_EQ(e["lost_ms"], 0);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace megascale
