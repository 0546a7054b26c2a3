// Ranks as threads of one process: a group for tests that have no network.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "trainer/parallel/group.h"

namespace megascale::trainer {

// Runs body once for each rank, each on a thread of its own with its group, and rethrows the first failure.
void run_ranks(int ranks, const std::function<void(std::unique_ptr<Group>)>& body);

}  // namespace megascale::trainer
