// Scenario 2: where DCQCN's queue stands still, by the fluid model of its authors and in the simulator.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/integration/sim/streams.h"
#include "tests/integration/sim/validation.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

struct Point {
  double line;  // bit/s
  Ecn ecn;
  unsigned flows;
};

// Zhu et al., SIGCOMM 2015, equations 5 to 9, all derivatives zero; rates in packets a second. A notification
// comes in an interval of t = 50 us with probability a = 1 - (1-p)^(tR); alpha settles at the probability of
// a mark in a period of its own timer, 55 us. Steps up come for B bytes with the rate R b and for the timer T
// with R d; beyond F of each the target grows (with R c and R e). dR/dt = 0: (Rt - R)(b + d) = a alpha / t.
// dRt/dt = 0: Rt - R = t R_AI R (c + e) / a. Both hold where a^2 alpha = t^2 R_AI R (b + d)(c + e), which has
// one root in p.
double marking_at_rest(const Point& point) {
  constexpr double kPacket = 4160 * 8, kInterval = 50e-6, kAlphaTimer = 55e-6, kTimer = 55e-6;
  constexpr double kBytes = 10e6 / 4160, kF = 5;
  const double rate = point.line / kPacket / point.flows, increase = 40e6 / kPacket;
  const auto excess = [&](double p) {
    const auto unmarked = [&](double packets) { return std::pow(1 - p, packets); };
    const double a = 1 - unmarked(kInterval * rate), alpha = 1 - unmarked(kAlphaTimer * rate);
    const double b = p / (1 / unmarked(kBytes) - 1), d = p / (1 / unmarked(kTimer * rate) - 1);
    const double c = unmarked(kF * kBytes) * b, e = unmarked(kF * kTimer * rate) * d;
    return a * a * alpha - kInterval * kInterval * increase * rate * (b + d) * (c + e);
  };
  double low = 1e-9, high = 0.5;
  for (int i = 0; i < 100; ++i) (excess(std::sqrt(low * high)) < 0 ? low : high) = std::sqrt(low * high);
  return low;
}

double queue_at_rest(const Point& point) {
  const auto kmin = static_cast<double>(point.ecn.kmin), kmax = static_cast<double>(point.ecn.kmax);
  return kmin + marking_at_rest(point) * (kmax - kmin) / point.ecn.pmax;
}

const Ecn kAt100G{.kmin = 100'000, .kmax = 400'000, .pmax = 0.2, .at = Rate::gigabits(100)};

const Ecn kPaper{.kmin = 5'000, .kmax = 200'000, .pmax = 0.01, .at = Rate::gigabits(40)};

TEST(DcqcnFixedPoint, Scenario2TheFluidModelGivesThePublishedPoints) {
  for (const auto& [flows, kilobytes] : {std::pair{2u, 101.5}, {8u, 108.8}, {16u, 121.2}, {32u, 150.3}}) {
    EXPECT_NEAR(queue_at_rest({100e9, kAt100G, flows}) / 1e3, kilobytes, 0.1);
  }
  EXPECT_NEAR(queue_at_rest({40e9, kPaper, 2}) / 1e3, 67.9, 0.1);
}

struct Case {
  Point point;
  double tolerance;  // of the queue
};

class DcqcnFixedPointOf : public testing::TestWithParam<Case> {};

TEST_P(DcqcnFixedPointOf, Scenario2TheQueueStandsThere) {
  const auto& [point, tolerance] = GetParam();
  const Rate line{point.line};
  const Topology t = one_bottleneck(point.flows + 1, line);
  sim::Setup setup = preset_on(t, "dcqcn:paper");
  setup.model.switches.ecn = point.ecn;
  setup.limit = point.flows == 2 ? 400ms : 150ms;  // two flows swing slowly
  setup.sample = 10us;
  Streams streams(streams_to_first(point.flows), 100us);
  const Result r = simulate(setup, streams);
  const PortSamples s = samples_of(setup, r, port_to(t, 0), 50ms);
  const double expected = queue_at_rest(point),
               jain = streams.mean_jain_of_windows(Time(50ms), Time(setup.limit));
  show(fmt::format("scenario 2: mean queue of {} flows at {}G, KB", point.flows, point.line / 1e9),
       s.mean_queue / 1e3, fmt::format("{:.1f} +- {:.0f} %", expected / 1e3, tolerance * 100));
  show("    utilisation", s.utilisation, ">= 0.99");
  show("    Jain index over 100 us", jain, ">= 0.95");
  EXPECT_NEAR(s.mean_queue, expected, tolerance * expected);
  EXPECT_GE(s.utilisation, 0.99);
  EXPECT_GE(jain, 0.95);
}

INSTANTIATE_TEST_SUITE_P(Flows, DcqcnFixedPointOf,
                         testing::Values(Case{{100e9, kAt100G, 2}, 0.25}, Case{{100e9, kAt100G, 8}, 0.15},
                                         Case{{100e9, kAt100G, 16}, 0.15}, Case{{100e9, kAt100G, 32}, 0.15},
                                         Case{{40e9, kPaper, 2}, 0.25}));

}  // namespace
}  // namespace megascale::sim
