#include "fabric_tools/placement/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/placement/small_fabric.h"

namespace megascale {
namespace {

using testing::HasSubstr;

nlohmann::ordered_json sample(const Topology& t) {
  const Parallel p{.tensor = 2, .pipeline = 2, .data = 1};
  TrainingModel m;
  m.layers = 8, m.micro_batches = 5;
  return to_json({p, m, in_order(t, {5, 2}, 2, p)});
}

std::string document_complaint(const Topology& t, const std::string& text) {
  return complaint([&] { parse_placement(text, "p.json", t); });
}

TEST(PlacementDocument, ReadsWhatItWrote) {
  const Topology t = small_fabric();
  const PlacementDocument d = parse_placement(sample(t).dump(), "p.json", t);
  EXPECT_THAT(d.placement.hosts, testing::ElementsAre(5, 2));
  EXPECT_EQ(d.placement.gpus_per_host, 2u);
  EXPECT_EQ(d.parallel.tensor, 2u);
  EXPECT_EQ(d.parallel.pipeline, 2u);
  EXPECT_EQ(d.model.layers, 8u);
  EXPECT_EQ(d.model.micro_batches, 5u);
  EXPECT_EQ(to_json(d), sample(t));
}

TEST(PlacementDocument, GivesEachRankItsRail) {
  const Topology t = small_fabric();
  const auto json = sample(t);
  ASSERT_EQ(json["ranks"].size(), 4u);
  EXPECT_EQ(json["ranks"][3]["host"], "host-3");
  EXPECT_EQ(json["ranks"][3]["local_rank"], 1);
  EXPECT_EQ(json["ranks"][3]["rail"], 1);
}

TEST(PlacementDocument, NamesWhatIsWrong) {
  const Topology t = small_fabric();
  EXPECT_THAT(document_complaint(t, "{"), HasSubstr("p.json: this is no JSON object"));
  EXPECT_THAT(document_complaint(t, "{}"), HasSubstr("this is no placement"));
  auto json = sample(t);
  json["version"] = 2;
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("another version"));
  json = sample(t), json["hosts"][0] = "stranger";
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("host `stranger` is not in the topology small"));
  json = sample(t), json["hosts"][0] = json["hosts"][1];
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("in the list twice"));
  json = sample(t), json["hosts"] = nlohmann::json::array({"host-1"});
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("need 2 hosts"));
  json = sample(t), json["parallel"]["tensor"] = 0;
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("`tensor` must be a number, 1 to"));
  // 2^64 ranks in hosts of 2^22.
  json = sample(t), json["gpus_per_host"] = 1 << 22;
  json["parallel"] = {{"tensor", 1 << 22}, {"pipeline", 1 << 21}, {"data", 1 << 21}};
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("`tensor` must be a number, 1 to 65536"));
  json = sample(t), json["parallel"]["data"] = -1.5;
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("`data` must be a whole number"));
  json = sample(t), json["model"].erase("layers");
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("`layers` is missing"));
  json = sample(t), json["model"]["flops"] = "fast";
  EXPECT_THAT(document_complaint(t, json.dump()), HasSubstr("`flops` must be a number"));
  EXPECT_THROW(read_placement("/nonexistent.json", t), std::invalid_argument);
}

}  // namespace
}  // namespace megascale
