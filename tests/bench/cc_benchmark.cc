// Nanoseconds that a controller takes for one acknowledged packet: sent(), ack() and the answers, as the
// sender of a packet engine calls them. RTTs and marks vary, so that every branch is taken.
#include <benchmark/benchmark.h>

#include <array>
#include <random>
#include <string>

#include "cc/registry.h"

namespace megascale {
namespace {

constexpr size_t kSignals = 4096;

struct Signal {
  Duration rtt;
  bool marked;
};

std::array<Signal, kSignals> signals() {
  std::mt19937_64 random(1);
  std::array<Signal, kSignals> all;
  for (Signal& s : all) {
    const auto queueing = static_cast<int64_t>(random() % 16'000);
    s = {12us + Duration(queueing), random() % 16'000 < static_cast<uint64_t>(queueing) / 4};
  }
  return all;
}

void acknowledgement(benchmark::State& state, const Algorithm& algorithm) {
  const PathFacts path{.line_rate = Rate::gigabits(100), .packet = 4096, .base_rtt = 12us};
  const auto c = build_controller(algorithm.name, {}, path, nullptr);
  const auto all = signals();
  std::array<HopReport, 5> hops{};
  for (HopReport& hop : hops) hop.capacity = Rate::gigabits(100);
  Time now{};
  uint64_t acked = 0;
  size_t i = 0;
  for (auto _ : state) {
    now += 330ns;
    acked += 4096;
    c->sent(now, 4096, 37 * 4096);
    const Signal& s = all[i++ % kSignals];
    if (c->wants_telemetry()) {
      for (HopReport& hop : hops) {
        hop.at = now;
        hop.queue = static_cast<Bytes>((s.rtt - 12us).count());
        hop.transmitted += 4096;
      }
      c->telemetry({.now = now, .sequence = acked, .hops = hops});
    }
    c->ack({.now = now, .sequence = acked, .bytes = 4096, .rtt = s.rtt, .ecn_marked = s.marked, .hops = 5});
    if (now >= c->next_tick()) c->tick(now);
    benchmark::DoNotOptimize(c->rate());
    benchmark::DoNotOptimize(c->window());
  }
}

void build(benchmark::State& state, const Algorithm& algorithm) {
  const PathFacts path{.line_rate = Rate::gigabits(100), .packet = 4096, .base_rtt = 12us};
  const Recipe recipe = prepare_controller(algorithm.name, {}, nullptr);
  for (auto _ : state) benchmark::DoNotOptimize(recipe(path));
}

}  // namespace
}  // namespace megascale

int main(int argc, char** argv) {
  for (const megascale::Algorithm& a : megascale::algorithms()) {
    const std::string name(a.name);
    benchmark::RegisterBenchmark(("acknowledgement/" + name).c_str(), megascale::acknowledgement, a);
    benchmark::RegisterBenchmark(("build/" + name).c_str(), megascale::build, a);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
