// A group whose collectives travel over an NCCL network plugin.
#pragma once
#include <memory>

#include "plugin/host/communicator.h"
#include "trainer/parallel/group.h"

namespace megascale::trainer {

// Connects all ranks. Throws std::runtime_error saying who is missing or what failed.
std::unique_ptr<Group> make_plugin_group(const host::CommunicatorOptions& options);

}  // namespace megascale::trainer
