#include "fabric_tools/sim/model_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/complaint.h"

namespace megascale::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Fields, EachTakesItsOwnDefaultAndHasASentence) {
  std::set<std::string_view> names;
  for (const Field& field : fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_GT(field.sentence.size(), 8u) << field.name;
    Model model;
    const std::string value = value_of(field, model);
    if (!value.empty()) set_field(model, field.name, value);
    EXPECT_EQ(value_of(field, model), value) << field.name;
    EXPECT_THAT(describe_fields(), HasSubstr(std::string(field.name)));
  }
}

TEST(Fields, EachRefusesNonsense) {
  for (const Field& field : fields()) {
    for (const char* nonsense : {"", "much", "nan", "1e300", "-1e300", "--1"}) {
      Model model;
      EXPECT_THAT(complaint([&] { set_field(model, field.name, nonsense); }),
                  AllOf(HasSubstr(std::string(field.name)), HasSubstr("it takes")))
          << nonsense;
    }
  }
}

TEST(Fields, BoundsAreIncluded) {
  Model model;
  set_field(model, "switches.ecn.pmax", "1");
  EXPECT_THAT(complaint([&] { set_field(model, "switches.ecn.pmax", "1.0001"); }),
              HasSubstr("a number, 0 to 1"));
  set_field(model, "hosts.fixed_timeout", "1us");
  EXPECT_EQ(model.hosts.fixed_timeout, 1us);
  EXPECT_THAT(complaint([&] { set_field(model, "hosts.ack_every", "1.5"); }), HasSubstr("a whole number"));
}

TEST(Fields, OnlyWhatDiffersIsWrittenDown) {
  Model model;
  EXPECT_EQ(to_json(model).dump(), "{}");
  set_field(model, "switches.balance", "plb");
  model.faults.push_back({.at = 1ms, .lasts = {}, .low = "h/0", .high = "", .rate = 0});
  EXPECT_EQ(to_json(model)["switches.balance"], "plb");
  EXPECT_EQ(to_json(model)["faults"][0]["low"], "h/0");
}

}  // namespace
}  // namespace megascale::sim
