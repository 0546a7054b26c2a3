// Plays collectives: ring for all of them, tree for all-reduce.
#include <pthread.h>
#include <string.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"
#include "tests/rig/nccl/fakecuda/kernel/arithmetic.h"
#include "tests/rig/nccl/fakecuda/kernel/player.h"
#include "tests/rig/nccl/fakecuda/kernel/primitives.h"

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

struct part {  // of the elements, the channel's
  size_t all, offset, count, chunk;
};

static struct part part_of_channel(const struct coll* w, int channel, size_t element, int protocol) {
  const size_t grain = (protocol == PROTO_LL ? 16 : 512) / element;
  const int lo = (int)w->channelLo, hi = (int)w->channelHi;
  const size_t middle = hi > lo + 1 ? (size_t)(hi - lo - 1) : 0;
  struct part p = {.all = w->countLo + w->countHi + w->countMid * middle};
  if (channel == lo) {
    p.count = w->countLo;
    p.chunk = w->grainsLo * grain;
  } else if (channel == hi) {
    p.offset = w->countLo + middle * w->countMid;
    p.count = w->countHi;
    p.chunk = w->grainsHi * grain;
  } else {
    p.offset = w->countLo + (size_t)(channel - lo - 1) * w->countMid;
    p.count = w->countMid;
    p.chunk = w->grainsMid * grain;
  }
  return p;
}

static struct primitives primitives_for(struct comm* comm, struct function f, struct coll* w, int slices,
                                        int steps) {
  const bool ll = f.protocol == PROTO_LL;
  struct primitives p = {.comm = comm,
                         .protocol = f.protocol,
                         .type = f.type,
                         .op = f.op,
                         .element = element_size[f.type],
                         .arg = w->redOpArg,
                         .slices = ll ? 1 : slices,
                         .steps_per_slice = ll ? 1 : steps};
  if (w->argIsPtr) {
    p.arg = 0;
    memcpy(&p.arg, (void*)w->redOpArg, f.op == SUMPOSTDIV ? sizeof p.arg : p.element);
  }
  p.step_elements = (size_t)comm->buffSizes[PROTO_SIMPLE] / STEPS / p.element;
  return p;
}

// ---- tree: sums go up to the root and results come down, both at once

struct tree {
  struct comm* comm;
  struct channel* channel;
  struct function f;
  struct coll* work;
  struct part part;
};

static void* play_tree_down(void* arg) {
  struct tree* t = arg;
  struct primitives p = primitives_for(t->comm, t->f, t->work, 1, 1);
  const int32_t* down = t->channel->tree.down;
  open_recv(&p, t->channel->peers[t->channel->tree.up], 0);
  for (int i = 0; i < MAX_TREE_DOWN && down[i] >= 0; i++) open_send(&p, t->channel->peers[down[i]], 0);
  for (size_t e = 0; e < t->part.count; e += t->part.chunk) {
    char* to = t->work->recvbuff + (t->part.offset + e) * p.element;
    move_chunk(&p, RECV | (p.sends ? SEND : 0), NULL, to, (ssize_t)smaller(t->part.chunk, t->part.count - e));
  }
  close_primitives(&p);
  return NULL;
}

static void play_tree(struct tree* t) {
  struct primitives p = primitives_for(t->comm, t->f, t->work, 1, 1);
  const int32_t *down = t->channel->tree.down, up = t->channel->tree.up;
  const bool root = up < 0;
  pthread_t descent;
  for (int i = 0; i < MAX_TREE_DOWN && down[i] >= 0; i++) {
    open_recv(&p, t->channel->peers[down[i]], 0);
    if (root) open_send(&p, t->channel->peers[down[i]], 0);
  }
  if (!root) {
    open_send(&p, t->channel->peers[up], 0);
    if (pthread_create(&descent, NULL, play_tree_down, t)) FAKE_DIE("no thread for a tree: %m");
  }
  for (size_t e = 0; e < t->part.count; e += t->part.chunk) {
    size_t at = (t->part.offset + e) * p.element;
    ssize_t count = (ssize_t)smaller(t->part.chunk, t->part.count - e);
    if (root) move_chunk(&p, RECV | SEND | PRE | POST, t->work->sendbuff + at, t->work->recvbuff + at, count);
    else move_chunk(&p, (p.receives ? RECV : 0) | SEND | PRE, t->work->sendbuff + at, NULL, count);
  }
  if (!root) pthread_join(descent, NULL);
  close_primitives(&p);
}

// ---- rings

struct ring {
  struct primitives p;
  const int32_t* ranks;  // in ring order, this rank first
  int size, index;
  struct part part;
  const char* in;
  char* out;
};

// Twice around: n-1 steps that reduce, the one that completes, n-2 that copy on, and the last.
static void ring_all_reduce(struct ring* r) {
  const size_t n = (size_t)r->size, index = (size_t)r->index, element = r->p.element;
  const size_t loop = n * r->part.chunk, align = 16 / element;
  size_t chunk = r->part.chunk;
  for (size_t e = 0; e < r->part.count; e += loop) {
    size_t left = r->part.count - e;
    if (left < loop) chunk = divide_up(divide_up(left, n), align) * align;
    for (size_t step = 1; step <= 2 * n - 1; step++) {
      size_t k = (index + 2 * n - step) % n;
      size_t at = (r->part.offset + e + k * chunk) * element;
      ssize_t count = (ssize_t)smaller(chunk, left > k * chunk ? left - k * chunk : 0);
      if (step == 1) move_chunk(&r->p, SEND | PRE, r->in + at, NULL, count);
      else if (step < n) move_chunk(&r->p, RECV | SEND | PRE, r->in + at, NULL, count);
      else if (step == n) move_chunk(&r->p, RECV | SEND | PRE | POST, r->in + at, r->out + at, count);
      else if (step < 2 * n - 1) move_chunk(&r->p, RECV | SEND, NULL, r->out + at, count);
      else move_chunk(&r->p, RECV, NULL, r->out + at, count);
    }
  }
}

static void ring_all_gather(struct ring* r, size_t at, ssize_t count) {
  const size_t element = r->p.element, all = r->part.all;
  const char* in = r->in + at * element;
  char* mine = r->out + (at + (size_t)r->ranks[0] * all) * element;
  move_chunk(&r->p, SEND, in, in == mine ? NULL : mine, count);
  for (int j = 1; j < r->size; j++) {
    char* to = r->out + (at + (size_t)r->ranks[r->size - j] * all) * element;
    move_chunk(&r->p, j < r->size - 1 ? RECV | SEND : RECV, NULL, to, count);
  }
}

static void ring_reduce_scatter(struct ring* r, size_t at, ssize_t count) {
  const size_t element = r->p.element, all = r->part.all;
  for (int j = 1; j <= r->size; j++) {
    const char* in = r->in + (at + (size_t)r->ranks[r->size - j] * all) * element;
    if (j == 1) move_chunk(&r->p, SEND | PRE, in, NULL, count);
    else if (j < r->size) move_chunk(&r->p, RECV | SEND | PRE, in, NULL, count);
    else move_chunk(&r->p, RECV | PRE | POST, in, r->out + at * element, count);
  }
}

static void ring_broadcast(struct ring* r, int root, size_t at, ssize_t count) {
  const char* in = r->in + at * r->p.element;
  char* out = r->out + at * r->p.element;
  if (r->ranks[0] == root) move_chunk(&r->p, SEND, in, r->in == r->out ? NULL : out, count);
  else move_chunk(&r->p, r->ranks[1] == root ? RECV : RECV | SEND, NULL, out, count);
}

static void ring_reduce(struct ring* r, int root, size_t at, ssize_t count) {
  const char* in = r->in + at * r->p.element;
  char* out = r->out + at * r->p.element;
  if (r->ranks[r->size - 1] == root) move_chunk(&r->p, SEND | PRE, in, NULL, count);
  else if (r->ranks[0] == root) move_chunk(&r->p, RECV | PRE | POST, in, out, count);
  else move_chunk(&r->p, RECV | SEND | PRE, in, NULL, count);
}

static void play_ring(struct ring* r, int collective, int root) {
  if (collective == ALL_REDUCE) return ring_all_reduce(r);
  for (size_t e = 0; e < r->part.count; e += r->part.chunk) {
    size_t at = r->part.offset + e;
    ssize_t count = (ssize_t)smaller(r->part.chunk, r->part.count - e);
    switch (collective) {
      case ALL_GATHER:
        ring_all_gather(r, at, count);
        break;
      case REDUCE_SCATTER:
        ring_reduce_scatter(r, at, count);
        break;
      case BROADCAST:
        ring_broadcast(r, root, at, count);
        break;
      case REDUCE:
        ring_reduce(r, root, at, count);
        break;
    }
  }
}

void play_collective(struct comm* comm, struct channel* channel, int index, struct function f,
                     struct coll* work) {
  enum { TREE = 0, RING_OF_ALL_REDUCE = 1, RING_OF_OTHERS = 0 };
  const bool ring = f.algorithm == (f.collective == ALL_REDUCE ? RING_OF_ALL_REDUCE : RING_OF_OTHERS);
  const bool tree = f.collective == ALL_REDUCE && f.algorithm == TREE;
  if (!(ring || tree) || f.protocol == PROTO_LL128)
    FAKE_DIE(
        "only NCCL_ALGO=Ring,Tree NCCL_PROTO=Simple,LL NCCL_PAT_ENABLE=0 are played (collective %d, "
        "algorithm %d, "
        "protocol %d)",
        f.collective, f.algorithm, f.protocol);
  if (work->regUsed || work->netRegUsed) FAKE_DIE("registered user buffers are not played");
  const struct part part = part_of_channel(work, index, element_size[f.type], f.protocol);
  if (tree) {
    struct tree t = {comm, channel, f, work, part};
    return play_tree(&t);
  }
  const bool twofold = f.collective != BROADCAST && f.collective != REDUCE;
  struct ring r = {.p = primitives_for(comm, f, work, twofold ? 2 : 1, twofold ? 2 : 1),
                   .ranks = channel->ring.userRanks,
                   .size = comm->nRanks,
                   .index = channel->ring.index,
                   .part = part,
                   .in = work->sendbuff,
                   .out = work->recvbuff};
  open_recv(&r.p, channel->peers[channel->ring.prev], 0);
  open_send(&r.p, channel->peers[channel->ring.next], 0);
  play_ring(&r, f.collective, (int)work->root);
  close_primitives(&r.p);
}
