// What one channel of a launched kernel is made of: collectives (ring, tree) and sends with receives.
#pragma once
#include "tests/rig/nccl/fakecuda/kernel/abi.h"

enum collective { P2P, ALL_GATHER, BROADCAST, ALL_REDUCE, REDUCE, REDUCE_SCATTER, COLLECTIVES };

struct function {  // what a function number of NCCL's device code stands for
  int collective, op, type, algorithm, protocol;
};

void play_collective(struct comm* comm, struct channel* channel, int index, struct function f,
                     struct coll* work);
void play_p2p(struct comm* comm, struct channel* channel, int index, const struct p2p* work, int count);
