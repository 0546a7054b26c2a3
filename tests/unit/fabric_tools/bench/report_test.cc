#include "fabric_tools/bench/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace megascale {
namespace {

TEST(Report, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::reduce_scatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_to_all, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::broadcast, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 1), 0);
}

TEST(Report, DocumentAddsWrongElements) {
  Circumstances what;
  what.options.collective = Collective::all_reduce;
  what.ranks = 4;
  what.network = "Toy";
  CollectiveRow row;
  row.bytes = 4000, row.count = 1000, row.seconds = 1e-6, row.wrong = 2, row.operations = 3;
  const auto json = document(what, std::vector<CollectiveRow>{row, row});
  EXPECT_EQ(json["wrong"], 4);
  EXPECT_EQ(json["benchmark"], "all_reduce");
  EXPECT_EQ(json["rows"].size(), 2U);
  EXPECT_DOUBLE_EQ(json["rows"][0]["algbw_GBps"], 4.0);
  EXPECT_DOUBLE_EQ(json["rows"][0]["busbw_GBps"], 6.0);
  EXPECT_FALSE(json["rows"][0].contains("longest_us"));
}

}  // namespace
}  // namespace megascale
