// What the validation scenarios have in common: the shipped presets on a network, the queue of one port over
// time, and figures that are printed beside what was expected.
#pragma once
#include <string>
#include <vector>

#include "fabric_tools/sim/simulation.h"

namespace megascale::sim {

inline constexpr double kWirePerPayload = 4160.0 / 4096;  // of full packets, as Hosts has them

// A shipped preset, with what its authors ask of switches and hosts.
Setup preset_on(const Topology&, const std::string& preset);

// NICs on one switch, with a base RTT of 12.7 us at 100 Gb/s: what the figures for one bottleneck assume.
Topology one_bottleneck(uint32_t nics, Rate = Rate::gigabits(100));

// Samples of one port's queue and rate, from a time on (Setup::sample must be given).
struct PortSamples {
  double mean_queue = 0, p99_queue = 0;  // bytes
  double utilisation = 0;
};
PortSamples samples_of(const Setup&, const Result&, uint32_t port, Duration from);
uint32_t port_to(const Topology&, uint32_t nic);  // the switch's port that leads to it, in Result::ports

// A line of the test's output, with both beside each other.
void show(const std::string& what, double measured, const std::string& expected);

}  // namespace megascale::sim
