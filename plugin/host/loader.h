// Finds and opens an NCCL network plugin as NCCL does, and gives a communicator its share of it. Where NCCL
// would go on silently with its built-in transports, this fails and says what was tried.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/host/net.h"

namespace megascale::host {

// The entries of NCCL_NET_PLUGIN's comma list, at most 14 of at most 254 characters. Empty and "none" give
// none.
std::vector<std::string> plugin_list(std::string_view specification);

// What dlopen is called with for one entry, in order: the entry itself, then libnccl-net-<entry>.so unless it
// has a slash or is lib*.so. A prefix of STATIC_PLUGIN stands for the program itself: an empty name.
std::vector<std::string> library_names(std::string_view entry);

// This project's own plugin: at or near the running program in a build tree or an installation, else
// "megascale".
std::string own_plugin();

// Opens one entry and takes its newest table. Opening the same library again gives the same object while it
// lives. Throws std::runtime_error with every path tried and dlerror's text.
std::shared_ptr<Net> open_net(const std::string& entry);

// A communicator's hold on a plugin: init at birth, finalize at death.
class NetContext {
 public:
  ~NetContext();
  NetContext(const NetContext&) = delete;
  NetContext& operator=(const NetContext&) = delete;

  Net& net() const { return *net_; }
  void* context() const { return context_; }
  int devices() const { return devices_; }
  abi::PropertiesV12 properties(int device) const;  // throws when the plugin refuses

 private:
  friend std::unique_ptr<NetContext> attach(const std::string&, uint64_t, const abi::CommConfig&);
  NetContext() = default;
  std::shared_ptr<Net> net_;
  void* context_ = nullptr;
  int devices_ = 0;
};

// The first candidate of the list that opens, carries the name that NCCL_NET asks for (when set), initialises
// and has a device. Throws std::runtime_error with what each candidate lacked.
std::unique_ptr<NetContext> attach(const std::string& specification, uint64_t communicator_id,
                                   const abi::CommConfig& config = {-1});

}  // namespace megascale::host
