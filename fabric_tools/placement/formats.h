// A placement as launchers and schedulers take it.
#pragma once
#include <string>

#include "fabric_tools/placement/placement.h"

namespace megascale {

// "NAME slots=GPUS", a line a host, in order of ranks: mpirun --hostfile FILE. Open MPI does not promise to
// keep the order of these.
std::string hostfile(const Placement&);
// The host of each rank, a line a rank: SLURM_HOSTFILE=FILE srun --distribution=arbitrary (srun(1)), or
// mpirun --hostfile FILE --map-by seq (mpirun(1)).
std::string slurm_hostfile(const Placement&);
// A command for each node that labels it with its place: megascale/position counts from 0 in order of ranks,
// megascale/stage is the pipeline stage of its first rank, megascale/set and megascale/pod are what it hangs
// under. For sh.
std::string kubernetes_labels(const Placement&, const Parallel&);

}  // namespace megascale
