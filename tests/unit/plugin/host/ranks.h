// Several ranks in one process, a thread each, over a toy plugin: how the host side is tried without a
// network.
#pragma once
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "plugin/host/communicator.h"

namespace megascale::host {

std::string toy(const std::string& suffix);  // the library's path
std::string toy(int version);

// The plugin that tests of whole communicators use: MEGASCALE_TEST_PLUGIN, else a toy.
std::string any_plugin();

// An environment variable for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value);
  ~Variable();

 private:
  std::string name_;
  std::string before_;
  bool was_set_;
};

// The counters of a toy library that is loaded.
struct Counters {
  std::atomic<int> contexts, inits, comms, listeners, regions, nulls;
};
class ToyCounters {
 public:
  explicit ToyCounters(int version);
  ~ToyCounters();
  const Counters* operator->() const { return counters_; }

 private:
  void* library_;
  const Counters* counters_;
};

// Runs `body` once a rank; what it throws is a failure of the test.
void run_ranks(int ranks, CommunicatorOptions, const std::function<void(Communicator&)>& body);

// The same where errors are wanted: each rank's text, "no error" for those without.
std::vector<std::string> errors_of_ranks(int ranks, CommunicatorOptions,
                                         const std::function<void(Communicator&)>& body);

}  // namespace megascale::host
