// See primitives.h.
#include "tests/rig/nccl/fakecuda/kernel/primitives.h"

#include <sched.h>
#include <string.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"
#include "tests/rig/nccl/fakecuda/kernel/arithmetic.h"

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

// ---- connections

// The protocols share conn->step; "Simple" goes on at a multiple of what one of its chunks takes.
static uint64_t first_step(const struct primitives* p, const struct conn* c) {
  uint64_t per_chunk = (uint64_t)(p->slices * p->steps_per_slice);
  return divide_up(c->step, per_chunk) * per_chunk;
}

void open_recv(struct primitives* p, struct peer* from, int index) {
  struct side* r = &p->recv[p->receives++];
  r->conn = &from->recv[index];
  r->wait = r->conn->tail;
  r->post = r->conn->head;
  if (!r->wait || !r->post) FAKE_DIE("a receive over a connection that is not set up");
  r->seen = __atomic_load_n(r->wait, __ATOMIC_ACQUIRE);
  r->step = first_step(p, r->conn);
  __atomic_store_n(r->post, r->step, __ATOMIC_RELEASE);
}

void open_send(struct primitives* p, struct peer* to, int index) {
  struct side* s = &p->send[p->sends++];
  s->conn = &to->send[index];
  s->wait = s->conn->head;
  s->post = s->conn->tail;
  if (!s->wait || !s->post) FAKE_DIE("a send over a connection that is not set up");
  s->seen =
      __atomic_load_n(s->wait, __ATOMIC_ACQUIRE);  // starts at -STEPS where the proxy hands out the slots
  s->step = first_step(p, s->conn);
}

void close_primitives(struct primitives* p) {
  for (int i = 0; i < p->receives; i++) p->recv[i].conn->step = p->recv[i].step;
  for (int i = 0; i < p->sends; i++) p->send[i].conn->step = p->send[i].step;
  free(p->scratch);
}

// ---- waiting

static void pause_for(struct primitives* p, unsigned spins) {
  if (spins < 64) return;
  if (*p->comm->abortFlag) p->aborted = true;
  sched_yield();  // yield.c's
}

static void wait_for(struct primitives* p, struct side* s, uint64_t credit) {
  uint64_t needed = s->step + (uint64_t)p->steps_per_slice;
  for (unsigned spins = 0; !p->aborted && s->seen + credit < needed; spins++) {
    s->seen = __atomic_load_n(s->wait, __ATOMIC_ACQUIRE);
    pause_for(p, spins);
  }
}

static void post(struct side* s, uint64_t steps) {
  s->step += steps;
  __atomic_store_n(s->post, s->step, __ATOMIC_SEQ_CST);
}

static void name_size(struct side* s, size_t bytes) {
  if (s->conn->fifo) __atomic_store_n(&s->conn->fifo[s->step % STEPS].size, (int64_t)bytes, __ATOMIC_RELEASE);
}

// result = local (scaled where the operation wants it) op in[0] op in[1] ...
static void combine(struct primitives* p, int what, char* result, const char* local, char** in, int n,
                    size_t count) {
  const char* sum = local;
  if (local && (what & PRE) && p->op == PREMULSUM) {
    scale_before(p->type, p->arg, result, local, count);
    sum = result;
  }
  for (int i = 0; i < n; i++) {
    if (sum) reduce(p->type, p->op, p->arg, result, sum, in[i], count);
    else if (result != in[i]) memcpy(result, in[i], count * p->element);
    sum = result;
  }
  if (sum != result) memmove(result, sum, count * p->element);
  if ((what & POST) && p->op == SUMPOSTDIV) divide_after(p->type, p->arg, result, count);
}

// ---- the protocol "Simple": a slot is plain data

static char* simple_slot(struct side* s) {
  struct fifo* fifo = s->conn->fifo;
  size_t i = s->step % STEPS;
  if (fifo && __atomic_load_n(&fifo[i].mode, __ATOMIC_ACQUIRE) == FIFO_OFFSET)
    return s->conn->buffs[PROTO_SIMPLE] + __atomic_load_n(&fifo[i].offset, __ATOMIC_ACQUIRE);
  return s->conn->buffs[PROTO_SIMPLE] + i * (size_t)s->conn->stepSize;
}

static void move_slice(struct primitives* p, int what, const char* from, char* to, size_t count) {
  const size_t bytes = count * p->element;
  const int receives = what & RECV ? p->receives : 0, sends = what & SEND ? p->sends : 0;
  char *in[MAX_TREE_DOWN], *out[MAX_TREE_DOWN + 1];
  int outs = 0;
  if (to) out[outs++] = to;
  for (int i = 0; i < receives; i++) {
    wait_for(p, &p->recv[i], 0);
    in[i] = simple_slot(&p->recv[i]);
  }
  for (int i = 0; i < sends; i++) {
    wait_for(p, &p->send[i], STEPS);
    name_size(&p->send[i], bytes);
    out[outs++] = simple_slot(&p->send[i]);
  }
  if (bytes && !p->aborted) {
    combine(p, what, out[0], from, in, receives, count);
    for (int i = 1; i < outs; i++) memcpy(out[i], out[0], bytes);
  }
  for (int i = 0; i < receives; i++) post(&p->recv[i], (uint64_t)p->steps_per_slice);
  for (int i = 0; i < sends; i++) post(&p->send[i], (uint64_t)p->steps_per_slice);
}

static void move_simple(struct primitives* p, int what, const char* from, char* to, size_t count) {
  size_t slice = larger(divide_up(count, 16 * (size_t)p->slices) * 16,
                        p->step_elements * (size_t)p->steps_per_slice / 32);
  size_t done = 0;
  for (int i = 0; i < p->slices; i++, done += slice) {
    slice = smaller(slice, count - done);
    size_t offset = done * p->element;
    move_slice(p, what, from ? from + offset : NULL, to ? to + offset : NULL, slice);
  }
}

// ---- the protocol "LL": lines of 8 bytes of data, each half followed by the step's number, which says that
// it is there

struct line {
  uint32_t data1, flag1, data2, flag2;
};

static struct line* ll_slot(const struct primitives* p, const struct side* s) {
  size_t slot_bytes = (size_t)p->comm->buffSizes[PROTO_LL] / STEPS;
  return (struct line*)(s->conn->buffs[PROTO_LL] + (s->step % STEPS) * slot_bytes);
}

static void unpack_lines(struct primitives* p, struct side* s, char* to, size_t lines) {
  volatile struct line* line = ll_slot(p, s);
  const uint32_t flag = (uint32_t)s->step + 1;
  for (size_t k = 0; k < lines; k++) {
    for (unsigned spins = 0; !p->aborted && (line[k].flag1 != flag || line[k].flag2 != flag); spins++)
      pause_for(p, spins);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint32_t data[2] = {line[k].data1, line[k].data2};
    memcpy(to + k * sizeof data, data, sizeof data);
  }
}

static void pack_lines(struct primitives* p, struct side* s, const char* from, size_t lines) {
  volatile struct line* line = ll_slot(p, s);
  const uint32_t flag = (uint32_t)s->step + 1;
  for (size_t k = 0; k < lines && !p->aborted; k++) {
    uint32_t data[2];
    memcpy(data, from + k * sizeof data, sizeof data);
    line[k].data1 = data[0];
    line[k].data2 = data[1];
    __atomic_thread_fence(__ATOMIC_RELEASE);
    line[k].flag1 = flag;
    line[k].flag2 = flag;
  }
}

static void move_ll(struct primitives* p, int what, const char* from, char* to, size_t count) {
  const size_t bytes = count * p->element, lines = divide_up(bytes, 8), room = lines * 8 + 8;
  const int receives = what & RECV ? p->receives : 0, sends = what & SEND ? p->sends : 0;
  if (room * (MAX_TREE_DOWN + 1) > p->scratch_bytes) {
    free(p->scratch);
    p->scratch_bytes = room * (MAX_TREE_DOWN + 1);
    if (!(p->scratch = malloc(p->scratch_bytes))) FAKE_DIE("out of memory for %zu lines", lines);
  }
  char *in[MAX_TREE_DOWN], *result = p->scratch;
  for (int i = 0; i < sends; i++) {
    wait_for(p, &p->send[i], STEPS);
    name_size(&p->send[i], lines * sizeof(struct line));
  }
  for (int i = 0; i < receives; i++) {
    in[i] = p->scratch + (size_t)(i + 1) * room;
    unpack_lines(p, &p->recv[i], in[i], lines);
  }
  if (bytes && !p->aborted) {
    combine(p, what, result, from, in, receives, count);
    if (to) memcpy(to, result, bytes);
  }
  for (int i = 0; i < receives; i++) post(&p->recv[i], 1);
  for (int i = 0; i < sends; i++) {
    pack_lines(p, &p->send[i], result, lines);
    p->send[i].step++;  // the flags say it; nobody reads *tail
  }
}

void move_chunk(struct primitives* p, int what, const char* from, char* to, ssize_t count) {
  size_t n = count < 0 ? 0 : (size_t)count;
  if (p->protocol == PROTO_LL) move_ll(p, what, from, to, n);
  else move_simple(p, what, from, to, n);
}
