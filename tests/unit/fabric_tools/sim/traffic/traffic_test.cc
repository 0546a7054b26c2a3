// Every traffic over a wire of a fixed delay: who sends how much to whom, what waits for what, when it ends.
#include <gmock/gmock.h>

#include <set>

#include "fabric_tools/sim/traffic/make.h"
#include "tests/unit/complaint.h"
#include "tests/unit/fabric_tools/sim/traffic/fake_wire.h"

namespace megascale::sim {
namespace {

struct Played {
  FakeWire wire;
  std::unique_ptr<Workload> traffic;
};

Played play(const Topology& topology, const std::string& spec, uint64_t seed = 1) {
  Played r;
  r.traffic = make_traffic({.spec = spec, .seed = seed}, topology);
  r.wire.run(*r.traffic);
  return r;
}

std::string complaint_about(const std::string& spec, const Topology& topology = small_topology(4, 2)) {
  return complaint([&] { make_traffic({.spec = spec}, topology); });
}

using testing::AllOf;
using testing::HasSubstr;

TEST(Traffic, AFlowIsOneMessage) {
  const Played r = play(small_topology(4, 2), "flow:2MB:from=host1/1:to=4");
  ASSERT_EQ(r.wire.log.size(), 1u);
  EXPECT_EQ(r.wire.log[0].pair(), std::pair(3u, 4u));
  EXPECT_EQ(r.wire.log[0].bytes, 2'000'000u);
}

TEST(Traffic, EachNicOfAPermutationSendsToOneOtherAndReceivesFromOne) {
  const Played r = play(small_topology(16, 2), "permutation:1KiB");
  std::set<uint32_t> sources, destinations;
  for (const Sent& sent : r.wire.log) {
    EXPECT_NE(sent.source, sent.destination);
    EXPECT_EQ(sent.bytes, 1024u);
    sources.insert(sent.source), destinations.insert(sent.destination);
  }
  EXPECT_EQ(sources.size(), 32u);
  EXPECT_EQ(destinations.size(), 32u);
  EXPECT_EQ(r.wire.open, 0u);
}

TEST(Traffic, APermutationDependsOnTheSeedAndOnNothingElse) {
  const Topology t = small_topology(16, 2);
  EXPECT_EQ(play(t, "permutation:1KB", 3).wire.bytes_of_pairs(),
            play(t, "permutation:1KB", 3).wire.bytes_of_pairs());
  EXPECT_NE(play(t, "permutation:1KB", 3).wire.bytes_of_pairs(),
            play(t, "permutation:1KB", 4).wire.bytes_of_pairs());
}

TEST(Traffic, APermutationCanStayBelowItsTorsAndAmongSomeNics) {
  const Topology t = small_topology(16, 2);
  for (const Sent& sent : play(t, "permutation:1KB:within=tor").wire.log)
    EXPECT_EQ(sent.source % 2, sent.destination % 2);
  EXPECT_EQ(play(t, "permutation:1KB:sources=5").wire.log.size(), 5u);
}

TEST(Traffic, AnIncastHasAsManySendersAsWantedEvenWithFewerNics) {
  const Played some = play(small_topology(8, 2), "incast:10:1MB");
  std::set<uint32_t> sources;
  for (const Sent& sent : some.wire.log) {
    EXPECT_EQ(sent.destination, 0u);
    sources.insert(sent.source);
  }
  EXPECT_EQ(sources.size(), 10u);
  const Played many = play(small_topology(8, 2), "incast:30:1MB:to=host3/0");
  EXPECT_EQ(many.wire.log.size(), 30u);
  EXPECT_EQ(many.wire.bytes_of_pairs().size(), 15u);
}

class AllToAll : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Both, AllToAll, testing::Values("all_to_all", "all_to_all_staged"));

TEST_P(AllToAll, EachPairGetsItsBytesOnce) {
  const Played r = play(small_topology(6, 2), std::string(GetParam()) + ":100KB");
  const auto sums = r.wire.bytes_of_pairs();
  EXPECT_EQ(r.wire.log.size(), 12u * 11);
  EXPECT_EQ(sums.size(), 12u * 11);
  for (const auto& [pair, bytes] : sums) EXPECT_EQ(bytes, 100'000u);
  EXPECT_EQ(r.wire.open, 0u);
}

TEST_P(AllToAll, CanStayOnItsRail) {
  const Played r = play(small_topology(5, 3), std::string(GetParam()) + ":1KB:within=rail");
  EXPECT_EQ(r.wire.log.size(), 3u * 5 * 4);
  for (const Sent& sent : r.wire.log) EXPECT_EQ(sent.source % 3, sent.destination % 3);
}

TEST(Traffic, AStagedAllToAllGoesStageByStage) {
  const Played r = play(small_topology(8, 1), "all_to_all_staged:1KB");
  for (const Sent& sent : r.wire.log) {
    const uint32_t stage = (sent.destination + 8 - sent.source) % 8;
    EXPECT_EQ(sent.posted - Time{}, (stage - 1) * 10us);
  }
  EXPECT_EQ(r.wire.most_open, 8u);
}

// One slow pair: its ranks fall behind, and no rank is ever in two stages.
TEST(Traffic, ARankOfAStagedAllToAllWaitsForItsReceiver) {
  const Played r = play(small_topology(8, 1), "all_to_all_staged:1KB");
  std::map<uint32_t, Time> sent_until, received_until;
  for (const Sent& sent : r.wire.log) {
    EXPECT_GE(sent.posted, sent_until[sent.source]);
    EXPECT_GE(sent.posted, received_until[sent.destination]);
    sent_until[sent.source] = sent.at, received_until[sent.destination] = sent.at;
  }
}

TEST(Traffic, ARingAllReducePassesEachChunkTwiceAround) {
  const Played r = play(small_topology(8, 2), "ring_all_reduce:1000001");
  EXPECT_EQ(r.wire.log.size(), 2u * 8 * 14);  // a ring for each rail
  const auto sums = r.wire.bytes_of_pairs();
  EXPECT_EQ(sums.size(), 16u);
  for (const auto& [pair, bytes] : sums) {
    EXPECT_EQ((pair.first + 2) % 16, pair.second);  // the next host, on the same rail
    EXPECT_NEAR(static_cast<double>(bytes), 1000001 * 14.0 / 8, 2);
  }
  EXPECT_EQ(r.wire.now - Time{}, 14 * 10us);
  EXPECT_EQ(r.wire.most_open, 16u);  // a queue pair for each neighbour, kept
  EXPECT_EQ(r.wire.open, 0u);
}

TEST(Traffic, AStepOfARingFollowsTheOneBeforeOnTheNeighbour) {
  const Played r = play(small_topology(6, 1), "all_gather:6KB");
  EXPECT_EQ(r.wire.log.size(), 6u * 5);
  std::map<uint32_t, uint32_t> received, sent_of;
  for (const Sent& sent : r.wire.log) {
    EXPECT_LE(sent_of[sent.source], received[sent.source]);
    ++sent_of[sent.source], ++received[sent.destination];
    EXPECT_EQ(sent.bytes, 1000u);
  }
}

TEST(Traffic, RingsCanBeShortOrShuffled) {
  const Topology t = small_topology(8, 2);
  EXPECT_EQ(play(t, "reduce_scatter:8KB:ranks=4").wire.log.size(), 4u * 4 * 3);
  const auto sums = play(t, "ring_all_reduce:8KB:order=random").wire.bytes_of_pairs();
  EXPECT_EQ(sums.size(), 16u);
  EXPECT_NE(sums, play(t, "ring_all_reduce:8KB").wire.bytes_of_pairs());
  for (const auto& [pair, bytes] : sums) EXPECT_EQ(pair.first % 2, pair.second % 2);
}

TEST(Traffic, ATreeAllReduceSendsEverythingUpAndDownOnce) {
  for (uint32_t hosts : {2u, 3u, 5u, 7u, 8u, 13u}) {
    const Played r = play(small_topology(hosts, 1), "tree_all_reduce:1000001:chunk=100KB");
    std::map<uint32_t, Bytes> in;
    for (const Sent& sent : r.wire.log) in[sent.destination] += sent.bytes;
    Bytes sum = 0;
    for (const auto& [nic, bytes] : in) {
      sum += bytes;
      EXPECT_LE(bytes, 1000001u * 5 / 2) << "NIC " << nic << " of " << hosts;
    }
    EXPECT_EQ(sum, 2 * Bytes{hosts - 1} * 1000001);  // each edge, both ways, half in each tree
    EXPECT_EQ(r.wire.open, 0u);
  }
}

TEST(Traffic, AChunkOfATreeWaitsForBothChildren) {
  const Played r = play(small_topology(7, 1), "tree_all_reduce:1:chunk=1");
  // One tree of depth 2: two steps up, two down.
  EXPECT_EQ(r.wire.now - Time{}, 4 * 10us);
  EXPECT_EQ(r.wire.log.size(), 12u);
}

// Without delays the schedule's known length is (m + p - 1) (f + 2f) for m micro-batches, p stages and a
// forward pass of f. The last delivery is before the first stage's last backward pass, of 2 us. The second
// pipeline is deeper than its micro-batches.
TEST(Traffic, APipelineFillsAlternatesAndDrains) {
  for (const auto& [stages, micro_batches] : {std::pair(4u, 4u), {8u, 2u}}) {
    FakeWire wire(0us);
    const auto traffic =
        make_traffic({.spec = "pipeline:1MB:stages=" + std::to_string(stages) +
                              ":micro_batches=" + std::to_string(micro_batches) + ":forward=1us"},
                     small_topology(8, 1));
    wire.run(*traffic);
    const uint32_t pipelines = 8 / stages;
    EXPECT_EQ(wire.log.size(), pipelines * 2 * (stages - 1) * micro_batches);
    for (const auto& [pair, bytes] : wire.bytes_of_pairs()) {
      EXPECT_EQ(std::max(pair.first, pair.second) - std::min(pair.first, pair.second), pipelines);
      EXPECT_EQ(bytes, micro_batches * 1'000'000u);
    }
    EXPECT_EQ(wire.now - Time{}, (micro_batches + stages - 1) * 3us - 2us);
  }
}

TEST(Traffic, RandomPairsArriveAtTheWantedLoad) {
  const Topology t = small_topology(16, 1);
  const Played r = play(t, "random:10KB:load=0.5:for=2ms");
  // 16 NICs x 100 Gb/s x 0.5 for 2 ms are 200 MB: 20,000 messages, give or take five standard deviations.
  EXPECT_NEAR(static_cast<double>(r.wire.log.size()), 20'000, 5 * 142);
  std::map<uint32_t, int> by_source;
  for (const Sent& sent : r.wire.log) {
    EXPECT_NE(sent.source, sent.destination);
    EXPECT_LT(sent.posted - Time{}, 2ms);
    ++by_source[sent.source];
  }
  EXPECT_EQ(by_source.size(), 16u);
  EXPECT_NE(play(t, "random:10KB:load=0.5:for=2ms", 2).wire.log.size(), r.wire.log.size());
}

// 1,024 NICs x 100 Gb/s send 50 KB every 3.9 ns: less than twice the unit of a clock apart, on average.
TEST(Traffic, RandomPairsOfALargeFabricArriveAtTheWantedLoad) {
  const Played r = play(small_topology(1024, 1), "random:50KB:load=1:for=100us");
  EXPECT_NEAR(static_cast<double>(r.wire.log.size()), 25'600, 5 * 160);
}

TEST(Traffic, TheLoadOfRandomPairsMayComeFromOutside) {
  const auto traffic = make_traffic({.spec = "random:10KB:for=1ms", .load = 0.25}, small_topology(16, 1));
  EXPECT_NEAR(traffic->messages(), 5000, 1);
  EXPECT_THAT(complaint_about("random:10KB"), HasSubstr("`load' is missing"));
}

TEST(Traffic, AVictimSendsAsLongAsTheOthers) {
  const Played r = play(small_topology(4, 1), "incast:3:1MB:at=1ms+victim:from=2:to=3");
  ASSERT_TRUE(r.traffic->foreground_end());
  EXPECT_EQ(*r.traffic->foreground_end() - Time{}, 1ms + 10us);
  // 32 messages of 64 KiB each 10 us
  EXPECT_NEAR(r.traffic->victim_goodput()->bits_per_second, 32 * 65536 * 8 / 10e-6,
              0.02 * 32 * 65536 * 8 / 10e-6);
  EXPECT_EQ(r.wire.open, 0u);
}

TEST(Traffic, PartsStartAtTheirTimesAndABackgroundEndsWithTheRest) {
  const Played r = play(small_topology(8, 1), "flow:1KB+flow:2KB:at=300us+background:10KB:load=0.2");
  std::map<Bytes, Duration> posted;
  for (const Sent& sent : r.wire.log) posted[sent.bytes] = sent.posted - Time{};
  EXPECT_EQ(posted[1000], 0us);
  EXPECT_EQ(posted[2000], 300us);
  EXPECT_GT(posted[10000], 200us);
  EXPECT_LE(posted[10000], 310us);
  EXPECT_EQ(r.wire.open, 0u);
}

TEST(Traffic, WithoutItsEndlessPartsOnlyTheForegroundIsLeft) {
  const Topology t = small_topology(4, 1);
  const auto traffic = make_traffic({.spec = "flow:1KB+victim"}, t, Endless::kLeaveOut);
  FakeWire wire;
  wire.run(*traffic);
  EXPECT_EQ(wire.log.size(), 1u);
}

TEST(Traffic, WhatIsWrongIsQuotedWithWhatWouldBeRight) {
  EXPECT_THAT(complaint_about("permutation:0"), AllOf(HasSubstr("permutation:0"), HasSubstr("1 to 1TB")));
  EXPECT_THAT(complaint_about("permutation:-5KB"), HasSubstr("cannot be `-5KB'"));
  EXPECT_THAT(complaint_about("permutation"), HasSubstr("its `bytes' is missing"));
  EXPECT_THAT(complaint_about("permutation:1KB:within=pod"), HasSubstr("all, rail or tor"));
  EXPECT_THAT(complaint_about("permutation:1KB:colour=red"), HasSubstr("it knows no `colour'"));
  EXPECT_THAT(complaint_about("permutation:1KB:all:8:9"), HasSubstr("`9' is too much"));
  EXPECT_THAT(complaint_about("flow:bytes=1KB:bytes=2KB"), HasSubstr("`bytes' is given twice"));
  EXPECT_THAT(complaint_about("permutation:1KB:sources=1"), HasSubstr("2 to 8"));
  EXPECT_THAT(complaint_about("storm:1KB"), AllOf(HasSubstr("`storm' is none of"), HasSubstr("all_to_all")));
  EXPECT_THAT(complaint_about(""), HasSubstr("`' is none of"));
  EXPECT_THAT(complaint_about("incast:1000000000:1KB"), HasSubstr("1 to 1000000"));
  EXPECT_THAT(complaint_about("incast:2.5:1KB"), HasSubstr("whole number"));
  EXPECT_THAT(complaint_about("incast:2:1KB:to=host9/0"), HasSubstr("0 to 7, or host0/0 to host3/1"));
  EXPECT_THAT(complaint_about("flow:1KB:from=3:to=3"), HasSubstr("same NIC"));
  EXPECT_THAT(complaint_about("flow:1KB:at=later"), HasSubstr("cannot be `later'"));
  EXPECT_THAT(complaint_about("ring_all_reduce:1KB:ranks=3"), HasSubstr("leave one rank alone"));
  EXPECT_THAT(complaint_about("random:1:load=1:for=1h"), HasSubstr("messages, more than"));
  EXPECT_THAT(complaint_about("tree_all_reduce:8589934592:chunk=1"), HasSubstr("messages, more than"));
  EXPECT_THAT(complaint_about("victim"), HasSubstr("never end"));
  EXPECT_THAT(complaint_about("trace:/nowhere/at-all"), HasSubstr("/nowhere/at-all cannot be read"));
  EXPECT_THAT(complaint_about("trace:/tmp"), HasSubstr("it is no file"));
  EXPECT_THAT(complaint_about("trace:/dev/null"), HasSubstr("trace /dev/null"));
}

TEST(Traffic, ATopologyWhoseRailsDoNotMeetIsRespected) {
  Topology t = small_topology(4, 2);
  t.rails_meet = false;
  EXPECT_THAT(complaint_about("all_to_all:1KB", t), HasSubstr("within=rail"));
  for (const char* spec :
       {"all_to_all:1KB:within=rail", "incast:6:1KB", "ring_all_reduce:1KB", "pipeline:1KB:stages=4"}) {
    const Played r = play(t, spec);
    for (const Sent& sent : r.wire.log) EXPECT_EQ(sent.source % 2, sent.destination % 2) << spec;
  }
}

TEST(Traffic, TheHelpNamesEveryKind) {
  for (const char* kind : {"flow:", "permutation:", "incast:", "trace:", "victim", "background"})
    EXPECT_THAT(describe_traffic(), HasSubstr(kind));
}

}  // namespace
}  // namespace megascale::sim
