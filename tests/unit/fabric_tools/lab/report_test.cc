#include "fabric_tools/lab/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace megascale::lab {
namespace {

using testing::HasSubstr;

std::vector<std::string> a_job() {
  return {
      // Not in order of time: files are read one after another.
      R"({"mono_ns":13000000000,"pid":7,"rank":1,"event":"recovered","connection":"c","peer":"rank 0","rail":"rail1","fenced":2,"replayed_chunks":3,"replayed_bytes":3000000,"stalled_ms":312.5})",
      R"({"mono_ns":10000000000,"pid":1,"rank":-1,"event":"lab_start"})",
      R"({"mono_ns":12000000000,"pid":7,"rank":1,"event":"flap","connection":"c","peer":"rank 0","rail":"rail0","cause":"silence"})",
      R"({"mono_ns":12500000000,"pid":7,"rank":1,"event":"flap","connection":"c","peer":"rank 0","rail":"rail1","cause":"reset"})",
      R"({"mono_ns":12000000000,"pid":8,"rank":0,"event":"flap","connection":"c","peer":"process 7 at 10.1.0.2","rail":"rail0","cause":"silence"})",
      R"({"mono_ns":11500000000,"pid":1,"rank":-1,"event":"fault","kind":"drop","place":"host 0, rail 0","phase":"begin","effect":"done","for_s":3})",
      R"({"mono_ns":14000000000,"pid":7,"event":"returned","rail":"rail0"})",
      R"({"mono_ns":15000000000,"pid":7,"event":"rail","rail":"rail0","bytes_sent":1000,"bytes_received":10,"rtt_us":20})",
      R"({"mono_ns":15000000000,"pid":8,"event":"rail","rail":"rail0","bytes_sent":500,"bytes_received":5,"rtt_us":40})",
  };
}

TEST(Report, JoinsEachRecoveryToTheFlapItEnds) {
  Report report = digest(a_job());
  ASSERT_EQ(report.flaps.size(), 3u);
  const Flap& first = report.flaps[0];
  EXPECT_DOUBLE_EQ(first.at, 2.0) << "times count from the start of the job";
  EXPECT_EQ(first.rail, "rail0");
  EXPECT_TRUE(first.with_next && !first.recovered);
  const Flap& second = *std::find_if(report.flaps.begin(), report.flaps.end(),
                                     [](const Flap& f) { return f.rail == "rail1"; });
  EXPECT_TRUE(second.recovered);
  EXPECT_EQ(second.onto, "rail1");
  EXPECT_EQ(second.replayed_bytes, 3e6);
  EXPECT_EQ(second.stalled_ms, 312.5);
  for (const Flap& flap : report.flaps) {
    EXPECT_FALSE(flap.rank == 0 && flap.recovered)
        << "the same name in another process is another connection";
  }
}

TEST(Report, ConnectionsToOnePeerAndFromAnotherMayShareAName) {
  auto line = [](int ms, const char* event, const char* direction, const char* peer, const char* more) {
    return fmt::format(
        R"({{"mono_ns":{}000000,"pid":7,"rank":1,"event":"{}","connection":"1.1","direction":"{}","peer":"{}",{}}})",
        ms, event, direction, peer, more);
  };
  Report report = digest({line(1, "flap", "to", "a", R"("rail":"rail0","cause":"reset")"),
                          line(2, "flap", "from", "a", R"("rail":"rail0","cause":"reset")"),
                          line(3, "flap", "to", "b", R"("rail":"rail0","cause":"reset")"),
                          line(4, "recovered", "to", "a", R"("rail":"rail1","stalled_ms":40)"),
                          line(5, "recovered", "from", "a", R"("rail":"rail1","stalled_ms":50)"),
                          line(6, "recovered", "to", "b", R"("rail":"rail1","stalled_ms":60)")});
  ASSERT_EQ(report.flaps.size(), 3u) << "no recovery is without its flap";
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(report.flaps[i].recovered && !report.flaps[i].with_next) << i;
    EXPECT_EQ(report.flaps[i].stalled_ms, 40.0 + 10.0 * static_cast<double>(i));
  }
  EXPECT_THAT(tables(report), testing::AllOf(HasSubstr("to a"), HasSubstr("from a"), HasSubstr("to b")));
}

TEST(Report, AFaultStandsBeforeWhatItCauses) {
  Report report = digest(
      {R"({"mono_ns":1000000000,"pid":1,"rank":-1,"event":"lab_start"})",
       R"({"mono_ns":3000000000,"pid":7,"rank":1,"event":"flap","connection":"c","rail":"rail0","cause":"reset"})",
       R"({"mono_ns":3200000000,"pid":1,"rank":-1,"event":"fault","kind":"kill","phase":"begin","effect":"done","took_ms":500})"});
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_DOUBLE_EQ(report.incidents[0].at, 1.7);
  std::string text = tables(report);
  EXPECT_LT(text.find("fault: kill"), text.find("rail0"));
}

TEST(Report, AddsUpARailOverProcesses) {
  RailTotals rail = digest(a_job()).rails.at("rail0");
  EXPECT_EQ(rail.processes, 2);
  EXPECT_EQ(rail.bytes_sent, 1500);
  EXPECT_EQ(rail.bytes_received, 15);
}

TEST(Report, PeersAreNamedByRankWhereItIsKnown) {
  std::vector<std::string> peers;
  for (const Flap& flap : digest(a_job()).flaps) peers.push_back(flap.peer);
  EXPECT_THAT(peers, testing::UnorderedElementsAre("rank 0", "rank 0", "rank 1"));
}

TEST(Report, TablesHoldWhatHappened) {
  std::string text = tables(digest(a_job()));
  EXPECT_THAT(text, HasSubstr("fault: drop on host 0, rail 0 for 3 s"));
  EXPECT_THAT(text, HasSubstr("312 ms"));
  EXPECT_THAT(text, HasSubstr("3.00 MB"));
  EXPECT_THAT(text, HasSubstr("1.50 kB"));
  EXPECT_THAT(text, HasSubstr("3 flaps; 1 recoveries"));
}

TEST(Report, FlapsThatCostNothingAreOnlyCounted) {
  std::vector<std::string> lines = a_job();
  for (int i = 0; i < 40; ++i) {
    for (const char* what : {"flap", "recovered"})
      lines.push_back(fmt::format(
          R"({{"mono_ns":1210000{:04}0,"pid":8,"rank":0,"event":"{}","connection":"idle{}","rail":"rail0","stalled_ms":0}})",
          i, what, i));
  }
  const std::string text = tables(digest(lines));
  EXPECT_THAT(text, testing::Not(HasSubstr("idle")));
  EXPECT_THAT(text, HasSubstr("-- and 40 with nothing under way"));
  EXPECT_THAT(text, HasSubstr("43 flaps"));
  EXPECT_THAT(text, HasSubstr("connection  returned to rail0"));
}

TEST(Report, OddLinesAreCountedAndPassedOver) {
  std::vector<std::string> lines = a_job();
  for (const char* odd : {"", "{", "[1]", "null", "{\"event\":5}", "{\"no\":1}", "\xff\xfe",
                          R"({"event":"flap","rank":"x","mono_ns":{}})",
                          R"({"event":"recovered","fenced":"many","connection":3})", R"({"event":"rail"})"}) {
    lines.emplace_back(odd);
  }
  Report report = digest(lines);
  EXPECT_EQ(report.malformed, 6u);
  EXPECT_FALSE(tables(report).empty());
  EXPECT_EQ(as_json(report)["malformed"], report.malformed);
  EXPECT_EQ(digest({}).flaps.size(), 0u);
}

TEST(Report, JsonSaysTheSame) {
  nlohmann::json json = as_json(digest(a_job()));
  EXPECT_EQ(json["flaps"].size(), 3u);
  EXPECT_EQ(json["longest_stall_ms"], 312.5);
  EXPECT_EQ(json["rails"][0]["rtt_us"], 30.0);
}

TEST(Report, ReadsAllFilesOfAFolderAndRefusesAnEmptyOne) {
  auto folder = std::filesystem::path(testing::TempDir()) / ("report" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_THROW(read_report(folder), std::runtime_error);
  EXPECT_THROW(read_report(folder / "absent"), std::runtime_error);
  std::vector<std::string> lines = a_job();
  for (size_t i = 0; i < lines.size(); ++i)
    std::ofstream(folder / ("rank-" + std::to_string(i % 2) + ".jsonl"), std::ios::app) << lines[i] << "\n";
  Report report = read_report(folder);
  EXPECT_EQ(report.files, 2u);
  EXPECT_EQ(report.flaps.size(), 3u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace megascale::lab
