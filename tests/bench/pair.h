// Two processes on two CPUs, one measurement: what each of them runs, when both begin, what it cost.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace megascale::bench {

double seconds_now();
double cpu_seconds();  // of this process, user and system

// What one process tells the other before the measurement (its address), as bytes.
class Exchange {
 public:
  Exchange(int out, int in) : out_(out), in_(in) {}
  void tell(const void*, std::size_t) const;
  void hear(void*, std::size_t) const;
  void meet() const;  // both are here

 private:
  int out_, in_;
};

struct Cost {
  double began = 0, ended = 0, cpu = 0;
  std::vector<double> samples;  // of a ping-pong: half round trips in seconds
};

struct Outcome {
  double wall = 0, cpu = 0;
  std::vector<double> samples;
};

using Side = std::function<Cost(const Exchange&)>;

// Runs `sender` on the first CPU and `receiver` on the second; wall time is from the sender's begin to the
// later end. Throws when either fails or does not end within the deadline.
Outcome run_pair(const Side& sender, const Side& receiver);

// Plain TCP, the yardstick: blocking writes of 1 MiB from and into one buffer; a spinning ping-pong. And the
// bare loop that a plugin cannot beat: spinning, from and into eight buffers of the message's size in turn.
Side plain_stream_sender(std::size_t total, const std::string& algorithm);
Side plain_stream_receiver(std::size_t total, const std::string& algorithm);
Side bare_stream(std::size_t total, std::size_t message, const std::string& algorithm, bool sends);
Side plain_ping(int rounds, std::size_t bytes, const std::string& algorithm, bool first);

// Through a plugin's ncclNet interface, `window` operations in flight, the oldest tested first.
Side plugin_stream(const std::string& plugin, std::size_t total, std::size_t message, int connections,
                   bool sends);
Side plugin_ping(const std::string& plugin, int rounds, std::size_t bytes, bool first);

}  // namespace megascale::bench
