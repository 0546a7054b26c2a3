// Megascale as a guest in someone's process: what is there once per process, from the first init to the last
// finalize. Logs go through NCCL's logger; nothing is left behind; a forked child starts afresh.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/abi/net.h"
#include "transport/session/process.h"

namespace megascale::plugin {

// What NCCL calls a device: a rail, or several merged into one (makeVDevice).
struct Device {
  std::string name;
  std::vector<int> rails;  // home rails of its connections
  int megabits = 0;
  uint64_t guid = 0;
  std::string pci_path;
  int rail_id = -1;
};

// One communicator's stay (v11 on): NCCL's context.
struct Context {
  uint64_t communicator = 0;
  int traffic_class = -1;
};

class Guest {
 public:
  static Guest& get();

  // Counts a user; the first starts the transport. No usable device is not an error: devices() is empty then.
  abi::Result enter(abi::LogFunction);
  void leave();

  // Null before the first enter() and after the last leave().
  Process* process() { return process_.get(); }
  int devices();
  const Device* device(int);  // stays valid for the life of the process
  abi::Result merge(int* device, const int* members, int n);
  void report();  // statistics as events and, if asked for, a summary

 private:
  abi::Result read_settings();
  abi::Result start();
  void describe();

  std::mutex mutex_;
  int users_ = 0;
  // What the first start found is kept for the later ones: the numbers of devices must keep their meaning,
  // and an init that fails late would leave one communicator on another network than its peers.
  std::optional<Settings> settings_;
  std::vector<tcp::Rail> rails_;
  std::unique_ptr<Process> process_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::atomic<bool> reported_{false};
};

abi::Result to_nccl(Code);

}  // namespace megascale::plugin
