#include "fabric_tools/sim/traffic/trace.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/sim/traffic/fake_wire.h"

namespace megascale::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Trace> read(const std::string& text, const Topology& topology = small_topology(4, 2)) {
  std::istringstream in(text);
  return Trace::read(in, "t.jsonl", topology);
}

std::string trace_complaint(const std::string& text) {
  return complaint([&] { read(text); });
}

TEST(Trace, MessagesGoAfterThoseTheyWaitForAndNotBeforeTheirTime) {
  const auto trace = read(R"({"id": "late", "source": 0, "destination": 2, "bytes": 5, "time": "100us"}
{"id": "last", "source": 4, "destination": "host0/1", "bytes": "2KB", "after": ["first", "late"], "delay": "3us"}
{"id": "first", "source": "host1/0", "destination": 4, "bytes": 7}

{"id": 9, "source": 2, "destination": 4, "bytes": 8, "after": ["first", "first"], "time": 0.000001}
)");
  FakeWire wire;
  wire.run(*trace);
  ASSERT_EQ(wire.log.size(), 4u);
  std::map<Bytes, Sent> by_bytes;
  for (const Sent& sent : wire.log) by_bytes.emplace(sent.bytes, sent);
  EXPECT_EQ(by_bytes.at(7).posted - Time{}, 0us);
  EXPECT_EQ(by_bytes.at(8).posted - Time{}, 10us);
  EXPECT_EQ(by_bytes.at(5).posted - Time{}, 100us);
  EXPECT_EQ(by_bytes.at(2000).posted - Time{}, 113us);
  EXPECT_EQ(by_bytes.at(2000).pair(), std::pair(4u, 1u));
  EXPECT_EQ(by_bytes.at(7).pair(), by_bytes.at(8).pair());
  EXPECT_EQ(wire.most_open, 3u);  // one connection for a pair
}

// A message whose time is far must not hold up another one of its pair.
TEST(Trace, AMessageDoesNotWaitBehindALaterOne) {
  const auto trace = read(R"({"id": 1, "source": 0, "destination": 2, "bytes": 1, "time": "1s"}
{"id": 2, "source": 0, "destination": 2, "bytes": 2})");
  FakeWire wire;
  wire.run(*trace);
  EXPECT_EQ(wire.log[0].bytes, 2u);
  EXPECT_EQ(wire.log[0].at - Time{}, 10us);
}

TEST(Trace, ACircleIsNamed) {
  EXPECT_THAT(trace_complaint(R"({"id": "a", "source": 0, "destination": 2, "bytes": 1}
{"id": "b", "source": 0, "destination": 2, "bytes": 1, "after": ["a", "d"]}
{"id": "c", "source": 0, "destination": 2, "bytes": 1, "after": ["b"]}
{"id": "d", "source": 0, "destination": 2, "bytes": 1, "after": ["c"]}
{"id": "e", "source": 0, "destination": 2, "bytes": 1, "after": ["d"]})"),
              AllOf(HasSubstr("waits for itself"), HasSubstr("c waits for b, that for d, that for c")));
  EXPECT_THAT(trace_complaint(R"({"id": "a", "source": 0, "destination": 2, "bytes": 1, "after": ["a"]})"),
              HasSubstr("message a waits for itself"));
}

TEST(Trace, ACircleAmongManyIsFoundFromAnywhere) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += R"({"source": 0, "destination": 2, "bytes": 1, "id": )" + std::to_string(i) + R"(, "after": [)" +
            std::to_string(i < 50 ? (i + 1) % 50 : i - 1) + "]}\n";
  }
  EXPECT_THAT(trace_complaint(text), AllOf(HasSubstr("waits for itself"), HasSubstr("and so on")));
}

TEST(Trace, WhatIsMalformedIsSaidWithItsLine) {
  const std::string good = R"({"id": 1, "source": 0, "destination": 2, "bytes": 1})";
  EXPECT_THAT(trace_complaint(""), HasSubstr("no message"));
  EXPECT_THAT(trace_complaint(good + "\n{"),
              AllOf(HasSubstr("t.jsonl, line 2"), HasSubstr("no JSON object")));
  EXPECT_THAT(trace_complaint("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(trace_complaint(good + "\n" + good), HasSubstr("already that of line 1"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 0, "destination": 2})"),
              HasSubstr("`bytes' is missing"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 0, "destination": 2, "bytes": 0})"),
              HasSubstr("1 or more"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 0, "destination": 2, "bytes": -1})"),
              HasSubstr("cannot be -1"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 0, "destination": 0, "bytes": 1})"),
              HasSubstr("to itself"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 8, "destination": 0, "bytes": 1})"),
              HasSubstr("0 to 7"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": -1, "destination": 0, "bytes": 1})"),
              HasSubstr("no NIC -1"));
  EXPECT_THAT(trace_complaint(R"({"id": 1.5, "source": 1, "destination": 0, "bytes": 1})"),
              HasSubstr("an id is"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 1, "destination": 0, "bytes": 1, "after": 2})"),
              HasSubstr("list of ids"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 1, "destination": 0, "bytes": 1, "after": [2]})"),
              HasSubstr("waits for 2, which nobody has"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 1, "destination": 0, "bytes": 1, "time": -2})"),
              HasSubstr("`time'"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": 1, "destination": 0, "bytes": 1, "size": 2})"),
              HasSubstr("`size' is none"));
  EXPECT_THAT(trace_complaint(R"({"id": 1, "source": null, "destination": {}, "bytes": []})"),
              HasSubstr("no NIC null"));
}

}  // namespace
}  // namespace megascale::sim
