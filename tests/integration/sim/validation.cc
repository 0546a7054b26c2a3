#include "tests/integration/sim/validation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fabric_tools/sim/preset.h"
#include "fabric_tools/sim/routes.h"
#include "tests/unit/fabric_tools/sim/networks.h"

namespace megascale::sim {

Setup preset_on(const Topology& topology, const std::string& preset) {
  Setup setup;
  setup.topology = &topology;
  apply(load_preset(preset), setup);
  return setup;
}

// There 2 x (332.8 + 3006) ns, and back 2 x (5.12 + 3006).
Topology one_bottleneck(uint32_t nics, Rate rate) { return single_switch(nics, rate, Duration(3006)); }

uint32_t port_to(const Topology& t, uint32_t nic) { return down_port(t.nics[nic].link); }

PortSamples samples_of(const Setup& setup, const Result& result, uint32_t port, Duration from) {
  const auto series = std::find_if(result.series.begin(), result.series.end(),
                                   [&](const Series& s) { return s.port == port; });
  if (series == result.series.end()) {
    ADD_FAILURE() << "port " << port << " is not among the busiest";
    return {};
  }
  const auto skip = from / setup.sample;
  std::vector<float> queue(series->queue.begin() + skip, series->queue.end());
  PortSamples s;
  for (size_t i = 0; i < queue.size(); ++i) {
    s.mean_queue += queue[i];
    s.utilisation += series->rate[static_cast<size_t>(skip) + i];
  }
  const auto count = static_cast<double>(queue.size());
  const Rate rate = setup.topology->links[port / 2].rate;
  s.mean_queue /= count;
  s.utilisation /= count * rate.bits_per_second;
  const auto p99 = queue.begin() + static_cast<std::ptrdiff_t>(0.99 * count);
  std::nth_element(queue.begin(), p99, queue.end());
  s.p99_queue = *p99;
  return s;
}

void show(const std::string& what, double measured, const std::string& expected) {
  fmt::print("    {:<62} {:>10.4g}   expected {}\n", what, measured, expected);
}

}  // namespace megascale::sim
