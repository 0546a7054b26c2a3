// A group whose collectives travel over an NCCL network plugin.
#pragma once
#include <memory>
#include <string>

#include "trainer/parallel/group.h"

namespace megascale::trainer {

struct PluginGroupOptions {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string rendezvous;  // host:port; rank 0 listens there
  std::string plugin;      // a path or a name as in NCCL_NET_PLUGIN; empty: our own
};

// Connects all ranks. Throws std::runtime_error saying who is missing or what failed.
std::unique_ptr<Group> make_plugin_group(const PluginGroupOptions& options);

}  // namespace megascale::trainer
