// The bound, against the formulae that the field knows (and section 5 of the validation list uses).
#include "fabric_tools/sim/traffic/ideal.h"

#include <gtest/gtest.h>

#include "fabric_tools/sim/traffic/make.h"
#include "tests/unit/fabric_tools/sim/traffic/fake_wire.h"

namespace megascale::sim {
namespace {

// 100 Gb/s and 3 us of propagation, whoever talks to whom.
Alone hundred_gigabits() {
  Alone alone;
  alone.message = [](uint32_t, uint32_t, Bytes bytes) {
    return 3us + Rate::gigabits(100).time_for(wire_bytes(Hosts{}, bytes));
  };
  return alone;
}

double ideal_us(const std::string& spec, uint32_t hosts = 16) {
  const Topology topology = small_topology(hosts, 1);
  const auto traffic = make_traffic({.spec = spec}, topology, Endless::kLeaveOut);
  return seconds(ideal_completion(topology, hundred_gigabits(), *traffic)) * 1e6;
}

constexpr double kPacket = 4160 * 8 / 100e3;  // us of a full packet

TEST(Ideal, AMessageAlone) {
  EXPECT_EQ(wire_bytes(Hosts{}, 2'000'000), 2'000'000u + 489 * 64);
  EXPECT_NEAR(ideal_us("flow:4096"), 3 + kPacket, 0.002);
  EXPECT_NEAR(ideal_us("permutation:2MB"), 3 + (2'000'000 + 489 * 64) * 8 / 100e3, 0.002);
}

TEST(Ideal, AnIncastIsAsLongAsItsReceiverNeeds) {
  EXPECT_NEAR(ideal_us("incast:64:409600"), 3 + 64 * 100 * kPacket, 0.01);
}

TEST(Ideal, AnAllToAllIsAsLongAsANicNeeds) {
  EXPECT_NEAR(ideal_us("all_to_all:40960"), 3 + 15 * 10 * kPacket, 0.01);
  EXPECT_NEAR(ideal_us("all_to_all_staged:40960"), 15 * (3 + 10 * kPacket), 0.01);
}

TEST(Ideal, ARingPaysItsBytesAndALatencyForEachStep) {
  EXPECT_NEAR(ideal_us("ring_all_reduce:655360"), 2 * 15 * (3 + 10 * kPacket), 0.05);
  EXPECT_NEAR(ideal_us("reduce_scatter:655360"), 15 * (3 + 10 * kPacket), 0.05);
}

TEST(Ideal, MessagesOfAConnectionGoOneAfterTheOther) {
  // 4 stages, no computing: the last micro-batch leaves the first stage after the seven before it.
  const double forward = 8 * 10 * kPacket + 2 * 10 * kPacket + 3 * 3;
  EXPECT_GE(ideal_us("pipeline:40960:micro_batches=8"), forward);
}

TEST(Ideal, ALaterStartCounts) {
  EXPECT_NEAR(ideal_us("flow:4096:at=1ms"), 1000 + 3 + kPacket, 0.002);
  EXPECT_NEAR(ideal_us("incast:8:40960:at=1ms+victim"), 1000 + 3 + 80 * kPacket, 0.01);
}

}  // namespace
}  // namespace megascale::sim
