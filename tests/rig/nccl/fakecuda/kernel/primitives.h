// Moving one chunk between a rank's buffers and its neighbours' connections, by NCCL's "Simple" protocol or
// its "LL".
//
// One connection: `step` counts its slots, of which there are STEPS. The receiving side waits until *tail
// says that enough have arrived, reads slot step % STEPS and returns credit through *head; the sending side
// waits for credit
// (*head + STEPS), fills the slot, names its size in fifo[step % STEPS].size where there is a fifo (that is:
// where a proxy thread of NCCL takes the slot to the network) and advances *tail.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "tests/rig/nccl/fakecuda/kernel/abi.h"

struct side {
  struct conn* conn;
  uint64_t step, seen;  // seen: what was last read from `wait`
  uint64_t *wait, *post;
};

struct primitives {
  const struct comm* comm;
  struct side recv[MAX_TREE_DOWN], send[MAX_TREE_DOWN];
  int receives, sends;
  int protocol, type, op;
  uint64_t arg;
  size_t element, step_elements;  // bytes of an element, elements of a slot
  int slices, steps_per_slice;
  bool aborted;
  char* scratch;  // LL: unpacked lines
  size_t scratch_bytes;
};

void open_recv(struct primitives* p, struct peer* from, int index);
void open_send(struct primitives* p, struct peer* to, int index);
void close_primitives(struct primitives* p);

// What a chunk does. PRE: the local input is scaled first, where the operation does that; POST: the result is
// divided.
enum { RECV = 1, SEND = 2, PRE = 4, POST = 8 };

// Combines what arrives (RECV) with the local `from`, where given, into the local `to`, where given, and into
// what leaves (SEND). A negative count is an empty chunk: its slots travel all the same.
void move_chunk(struct primitives* p, int what, const char* from, char* to, ssize_t count);
