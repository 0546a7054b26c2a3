// What the simulator's parts cost: an event of the queue, with few and many waiting; a packet of the 128-host
// permutation and of the all-to-all.
#include <benchmark/benchmark.h>

#include "fabric_tools/random.h"
#include "fabric_tools/sim/event_queue.h"
#include "fabric_tools/sim/simulation.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {
namespace {

// The hold model (Jones, CACM 1986): each event that is popped schedules another one.
void hold(benchmark::State& state) {
  const auto waiting = static_cast<uint32_t>(state.range(0));
  const Tick ahead = 1'332'800;  // a packet and a microsecond at 100 Gbit/s
  Random random(1);
  EventQueue queue(8 * ahead / waiting + 1, 65536);
  for (uint32_t i = 0; i < waiting; ++i) queue.push(random.below(ahead), EventKind::kArrive, i);
  Event event{};
  for (auto _ : state) {
    queue.pop(event);
    queue.push(event.at + ahead / 2 + random.below(ahead), event.kind(), event.index());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(hold)->Name("event_queue/hold")->RangeMultiplier(10)->Range(10, 1'000'000);

// Timers, nearly all of which are far away.
void timers(benchmark::State& state) {
  Random random(1);
  EventQueue queue;
  for (uint32_t i = 0; i < 100'000; ++i) queue.push(random.below(100'000'000), EventKind::kTimeout, i);
  Event event{};
  for (auto _ : state) {
    queue.pop(event);
    queue.push(event.at + 100'000'000, event.kind(), event.index());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(timers)->Name("event_queue/far_timers");

void whole_runs(benchmark::State& state, const std::vector<Send>& sends, const char* algorithm) {
  const Topology topology = fat_tree(8);
  Setup setup = plain(topology);
  setup.algorithm = algorithm;
  setup.model.switches.ecn.on = true;
  uint64_t packets = 0, events = 0;
  for (auto _ : state) {
    Sends traffic(sends);
    const Result r = simulate(setup, traffic);
    packets += r.data_packets;
    events += r.events;
  }
  state.counters["packets"] = benchmark::Counter(static_cast<double>(packets), benchmark::Counter::kIsRate);
  state.counters["events"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

void permutation_128(benchmark::State& state, const char* algorithm) {
  whole_runs(state, permutation(128, 2'000'000, 1), algorithm);
}
BENCHMARK_CAPTURE(permutation_128, fixed, "fixed")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(permutation_128, swift, "swift")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(permutation_128, hpcc, "hpcc")->Unit(benchmark::kMillisecond);

void all_to_all_128(benchmark::State& state) { whole_runs(state, all_to_all(128, 100'000), "swift"); }
BENCHMARK(all_to_all_128)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace megascale::sim

BENCHMARK_MAIN();
