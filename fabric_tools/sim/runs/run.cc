#include "fabric_tools/sim/runs/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "fabric_tools/memory.h"
#include "fabric_tools/sim/path.h"
#include "fabric_tools/sim/traffic/ideal.h"
#include "transport/base/quantity.h"

namespace megascale::sim {
namespace {

std::string text_of_memory(Bytes bytes) { return short_size_text(static_cast<double>(bytes)); }

Duration ideal_of(const Plan& plan, RunState* state) {
  const auto traffic = make_traffic(plan.traffic, *plan.setup.topology, Endless::kLeaveOut);
  const PathTimes times(plan.setup);
  Alone alone;
  alone.hosts = plan.setup.model.hosts;
  alone.message = [&](uint32_t source, uint32_t destination, Bytes bytes) {
    return times.alone(source, destination, bytes);
  };
  return ideal_completion(*plan.setup.topology, alone, *traffic, state ? &state->stop : nullptr);
}

// Takes what a traffic posts at its beginning, as far as it can be sent at all.
class Rehearsal final : public Wire {
 public:
  Rehearsal(const Setup& setup, const std::atomic<bool>& stop)
      : hosts_(setup.model.hosts), times_(setup), stop_(stop) {}

  ConnectionId connect(uint32_t source, uint32_t destination) override {
    if (stop_) throw std::runtime_error("stopped before the first run: there are no results");
    times_.base_rtt(source, destination);
    return next_++;
  }
  void post(ConnectionId, Bytes bytes, uint64_t, Time) override {
    if (packets_of(hosts_, bytes) < UINT32_MAX) return;
    throw std::invalid_argument(
        fmt::format("a message of {} bytes in packets of {}: no connection sends more than 2^32 packets",
                    bytes, hosts_.payload));
  }
  void close(ConnectionId) override {}
  void wake(Time, uint64_t) override {}

 private:
  const Hosts& hosts_;
  const PathTimes times_;
  const std::atomic<bool>& stop_;
  ConnectionId next_ = 0;
};

}  // namespace

Outcome run(const Plan& plan, RunState* state) {
  Outcome outcome;
  Setup setup = plan.setup;
  if (plan.with_ideal || plan.samples > 0) {
    const Duration ideal = ideal_of(plan, state);
    if (state && state->stop) return outcome;
    if (plan.with_ideal) outcome.ideal = ideal;
    if (plan.samples > 0) setup.sample = std::clamp(ideal / plan.samples, Duration(1us), Duration(1ms));
  }
  const auto traffic = make_traffic(plan.traffic, *setup.topology);
  const double before = thread_cpu_seconds();
  outcome.result = simulate(setup, *traffic, state);
  outcome.cpu_seconds = thread_cpu_seconds() - before;
  const auto foreground = traffic->foreground_end();
  outcome.completion = foreground ? *foreground - Time{} : outcome.result.completion;
  outcome.victim = traffic->victim_goodput();
  return outcome;
}

Bytes check_memory_and_routes(const Plan& plan, const std::atomic<bool>& stop) {
  const auto traffic = make_traffic(plan.traffic, *plan.setup.topology);
  const Bytes needed = memory_needed(plan.setup, *traffic), available = available_memory();
  if (needed > available) {
    throw std::runtime_error(fmt::format(
        "traffic `{}' on {} needs about {} and {} are available; take fewer NICs or smaller traffic",
        plan.traffic.spec, plan.setup.topology->name, text_of_memory(needed), text_of_memory(available)));
  }
  Rehearsal rehearsal(plan.setup, stop);
  try {
    traffic->begin(rehearsal);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("traffic `{}': {}", plan.traffic.spec, error.what()));
  }
  return needed;
}

}  // namespace megascale::sim
