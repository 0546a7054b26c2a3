#include "fabric_tools/sim/runs/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "fabric_tools/list.h"
#include "fabric_tools/memory.h"
#include "fabric_tools/sim/check.h"
#include "fabric_tools/sim/model_fields.h"
#include "fabric_tools/sim/path.h"
#include "fabric_tools/topology/read.h"

namespace megascale::sim {
namespace {

// `random' and `background' take the load itself; other traffic gets a background of it.
std::string with_load(const std::string& traffic, double load) {
  bool takes_it = load == 0;
  for (const std::string& part : split(traffic, '+')) {
    const std::string kind = split(part, ':').front();
    takes_it |= kind == "random" || kind == "background";
  }
  return takes_it ? traffic : traffic + fmt::format("+background:load={}", load);
}

// Its name, or its file where another has the same name.
std::string title_of(const Matrix& matrix, const std::vector<Topology>& topologies, size_t t) {
  const bool alone = std::none_of(topologies.begin(), topologies.end(), [&](const Topology& other) {
    return &other != &topologies[t] && other.name == topologies[t].name;
  });
  return alone ? topologies[t].name : printable(matrix.topologies[t]);
}

std::string about(const Cell& cell, const std::exception& error) {
  return fmt::format("{}, {}: {}", cell.title(), cell.cc, error.what());
}

class Runner {
 public:
  Runner(Comparison& comparison, const std::atomic<bool>& stop) : comparison_(comparison), stop_(stop) {
    for (size_t c = 0; c < comparison.cells.size(); ++c)
      for (size_t s = 0; s < comparison.cells[c].plans.size(); ++s) jobs_.emplace_back(c, s);
    states_ = std::vector<RunState>(jobs_.size());
  }

  void run(unsigned threads, const std::function<void(const Doing&)>& report) {
    std::vector<std::jthread> workers;
    const size_t count = std::min<size_t>(threads, jobs_.size());
    running_ = count;  // the first may end before the last begins
    for (size_t i = 0; i < count; ++i) workers.emplace_back([this] { work(); });
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(200));
      if (stop_ || failure_)
        for (RunState& state : states_) state.stop = true;
      lock.unlock();
      report(doing());
      lock.lock();
    }
    lock.unlock();
    workers.clear();
    comparison_.failure = failure_;
    comparison_.stopped = done_ < jobs_.size() || (stop_ && !comparison_.finished());
  }

 private:
  Doing doing() const {
    double sum = 0;
    for (const RunState& state : states_) sum += state.done;
    return {done_, jobs_.size(), sum / static_cast<double>(jobs_.size())};
  }

  void work() {
    for (;;) {
      const size_t index = next_++;
      if (index >= jobs_.size() || states_[index].stop || stop_) break;
      try {
        run_one(index);
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        break;
      }
    }
    const std::scoped_lock lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  void run_one(size_t index) {
    const auto [c, s] = jobs_[index];
    Cell& cell = comparison_.cells[c];
    Outcome outcome;
    try {
      outcome = sim::run(cell.plans[s], &states_[index]);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(about(cell, error));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(about(cell, error));
    } catch (const std::bad_alloc&) {
      throw std::runtime_error(about(cell, std::runtime_error("there is not enough memory")));
    }
    if (states_[index].stop && !outcome.result.finished && !comparison_.keep_partial)
      return;     // it ended because somebody wanted it to
    if (s > 0) {  // what the report shows of one seed only
      outcome.result.slowdowns = {}, outcome.result.ports = {}, outcome.result.series = {};
    }
    cell.outcomes[s] = std::move(outcome);
    states_[index].done = 1;
    ++done_;
  }

  Comparison& comparison_;
  const std::atomic<bool>& stop_;
  std::vector<std::pair<size_t, size_t>> jobs_;  // cell, seed
  std::vector<RunState> states_;
  std::atomic<size_t> next_ = 0, done_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t running_ = 0;
  std::exception_ptr failure_;
};

std::vector<Topology> read_topologies(const std::vector<std::string>& paths) {
  std::vector<Topology> topologies;
  for (const std::string& path : paths) topologies.push_back(read_topology(path));
  return topologies;
}

// The estimate of memory is the same for all seeds; the traffic itself may not be.
void plan_seeds(Cell& cell, const Matrix& matrix, const Topology& topology, const Preset& preset,
                const std::atomic<bool>& stop) {
  Plan plan{matrix.scenario.setup(topology, preset), {}, matrix.with_ideal};
  plan.traffic = {with_load(cell.traffic, cell.load), cell.load, matrix.scenario.placement, 1};
  try {
    check(plan.setup);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(about(cell, error));
  }
  for (const uint64_t seed : matrix.seeds) {
    plan.setup.seed = plan.traffic.seed = seed;
    const bool first = cell.plans.empty();
    if (first) cell.memory = check_memory_and_routes(plan, stop);
    plan.samples = first ? matrix.samples : 0;
    cell.plans.push_back(plan);
  }
  cell.outcomes.resize(cell.plans.size());
}

// From the first NIC: to its own ToR, its pod, and beyond, wherever its rail leads.
Duration longest_base_rtt(const Setup& setup) {
  Duration longest{0};
  const PathTimes times(setup);
  const auto& nics = setup.topology->nics;
  for (uint32_t nic = 1; nic < nics.size(); ++nic) {
    if (!setup.topology->rails_meet && nics[nic].rail != nics[0].rail) continue;
    longest = std::max(longest, times.base_rtt(0, nic));
  }
  return longest;
}

nlohmann::ordered_json number_or_null(double value) {
  if (std::isnan(value)) return nullptr;
  return value;
}

nlohmann::ordered_json json_of(const Outcome& outcome, uint64_t seed, const std::vector<Column>& list,
                               bool stats) {
  nlohmann::ordered_json json{{"seed", seed}, {"finished", outcome.result.finished}};
  if (outcome.result.deadlock) json["deadlock"] = true;
  for (const Column& column : list) json[column.key] = number_or_null(column.value(outcome));
  json["digest"] = fmt::format("{:016x}", outcome.result.digest);
  if (stats) json["cpu_seconds"] = outcome.cpu_seconds, json["events"] = outcome.result.events;
  return json;
}

}  // namespace

std::string Cell::title() const {
  return fmt::format("{}, {}{}", topology, traffic, load > 0 ? fmt::format(", load {}", load) : "");
}

Spread Cell::of(const Column& column) const {
  std::vector<double> values;
  for (const auto& outcome : outcomes)
    if (outcome) values.push_back(column.value(*outcome));
  return spread_of(values);
}

size_t Cell::done() const {
  return static_cast<size_t>(std::count_if(outcomes.begin(), outcomes.end(),
                                           [](const auto& outcome) { return outcome.has_value(); }));
}

bool Comparison::finished() const {
  for (const Cell& cell : cells)
    for (const auto& outcome : cell.outcomes)
      if (!outcome || !outcome->result.finished) return false;
  return true;
}

Comparison prepare(const Matrix& matrix, const std::atomic<bool>& stop) {
  constexpr double kMostRuns = 100'000;
  double runs = 1;
  for (const size_t count : {matrix.topologies.size(), matrix.traffic.size(), matrix.loads.size(),
                             matrix.cc.size(), matrix.seeds.size()})
    runs *= static_cast<double>(count);
  if (runs > kMostRuns)
    throw std::invalid_argument(
        fmt::format("these are {:.0f} runs, more than the {:.0f} that are sensible", runs, kMostRuns));
  Comparison comparison;
  comparison.seeds = matrix.seeds;
  comparison.topologies = read_topologies(matrix.topologies);
  std::vector<Preset> presets;
  for (const std::string& name : matrix.cc) presets.push_back(load_preset(name, matrix.presets));
  for (size_t t = 0; t < matrix.topologies.size(); ++t) {
    const Topology& topology = comparison.topologies[t];
    comparison.tiers = std::max(comparison.tiers, topology.tiers);
    for (const std::string& traffic : matrix.traffic)
      for (const double load : matrix.loads)
        for (const Preset& preset : presets) {
          if (stop) throw std::runtime_error("stopped before the first run: there are no results");
          Cell cell{.topology = title_of(matrix, comparison.topologies, t),
                    .traffic = traffic,
                    .cc = preset.name,
                    .load = load};
          plan_seeds(cell, matrix, topology, preset, stop);
          comparison.cells.push_back(std::move(cell));
        }
  }
  return comparison;
}

unsigned most_jobs(const Comparison& comparison) {
  Bytes largest = 1;
  for (const Cell& cell : comparison.cells) largest = std::max(largest, cell.memory);
  const Bytes fit = std::max<Bytes>(available_memory() / largest, 1);  // one was checked
  return static_cast<unsigned>(std::min<Bytes>(fit, std::max(std::thread::hardware_concurrency(), 1u)));
}

void run(Comparison& comparison, unsigned jobs, const std::atomic<bool>& stop,
         const std::function<void(const Doing&)>& report) {
  Runner(comparison, stop).run(std::max(jobs, 1u), report);
}

nlohmann::ordered_json document(const Comparison& comparison, bool stats) {
  using Json = nlohmann::ordered_json;
  const std::vector<Column> list = columns(comparison.tiers);
  Json json{{"format", "megascale-cc-compare"},
            {"version", 1},
            {"stopped", comparison.stopped},
            {"seeds", comparison.seeds}};
  Json meaning = Json::object();
  for (const Column& column : list) meaning[column.key] = column.sentence;
  json["columns"] = meaning;
  Json cells = Json::array();
  for (const Cell& cell : comparison.cells) {
    Json entry{{"topology", cell.topology}, {"traffic", cell.traffic}, {"load", cell.load}, {"cc", cell.cc}};
    entry["base_rtt_us"] = seconds(longest_base_rtt(cell.plans.front().setup)) * 1e6;
    entry["model"] = to_json(cell.plans.front().setup.model);
    Json median = Json::object(), runs = Json::array();
    for (const Column& column : list) {
      const Spread spread = cell.of(column);
      median[column.key] = {number_or_null(spread.median), number_or_null(spread.least),
                            number_or_null(spread.most)};
    }
    for (size_t s = 0; s < cell.outcomes.size(); ++s)
      if (cell.outcomes[s]) runs.push_back(json_of(*cell.outcomes[s], comparison.seeds[s], list, stats));
    entry["median_least_most"] = median;
    entry["runs"] = runs;
    cells.push_back(entry);
  }
  json["cells"] = cells;
  return json;
}

}  // namespace megascale::sim
