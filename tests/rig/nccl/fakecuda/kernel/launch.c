// Plays one launch: a thread for each channel reads its batches of work and hands them on.
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"
#include "tests/rig/nccl/fakecuda/kernel/player.h"

// ---- function numbers

// NCCL numbers (collective, operation, type, algorithm, protocol) in rows and maps each row to a function's
// number; several rows may share one (sums of int32 and of uint32, say), where any of them will do.
static const struct {
  bool per_type;
  size_t algorithms;
} rows_of[COLLECTIVES] = {[ALL_GATHER] = {false, 4},
                          [BROADCAST] = {false, 1},
                          [ALL_REDUCE] = {true, 6},
                          [REDUCE] = {true, 1},
                          [REDUCE_SCATTER] = {true, 4}};

static size_t kinds_of(int collective) { return rows_of[collective].per_type ? REDUCTIONS * ELEMENTS : 1; }

static const int* rows;
static size_t row_count;
static void find_rows(void) {
  size_t bytes = 0, expected = 1;  // the first row is that of sends and receives
  rows = fake_symbol("ncclDevFuncRowToId", &bytes);
  row_count = bytes / sizeof *rows;
  for (int c = ALL_GATHER; c < COLLECTIVES; c++) expected += kinds_of(c) * rows_of[c].algorithms * PROTOCOLS;
  if (!rows || row_count < expected || row_count > expected + 1)
    FAKE_DIE("this libnccl numbers its functions in another way (%zu rows, expected %zu)", row_count,
             expected);
}

static struct function decode(unsigned id) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_rows);
  size_t row = 0;
  while (row < row_count && rows[row] != (int)id) row++;
  if (row == row_count) FAKE_DIE("function %u is unknown", id);
  if (row == 0) return (struct function){.collective = P2P};
  row--;
  int c = ALL_GATHER;
  for (; row >= kinds_of(c) * rows_of[c].algorithms * PROTOCOLS; c++) {
    row -= kinds_of(c) * rows_of[c].algorithms * PROTOCOLS;
    if (c + 1 == COLLECTIVES) FAKE_DIE("function %u lies behind the last row", id);
  }
  size_t protocol = row % PROTOCOLS, algorithm = row / PROTOCOLS % rows_of[c].algorithms;
  size_t kind = row / PROTOCOLS / rows_of[c].algorithms;
  return (struct function){.collective = c,
                           .op = rows_of[c].per_type ? (int)(kind / ELEMENTS) : SUM,
                           .type = rows_of[c].per_type ? (int)(kind % ELEMENTS) : INT8,
                           .algorithm = (int)algorithm,
                           .protocol = (int)protocol};
}

// ---- work

enum { MOST_WORK = 64 };  // in batches that extend one another
struct work {
  _Alignas(16) char bytes[MOST_WORK * COLLREG_BYTES];
  size_t size;  // of one
  int count;
};

static size_t size_of_work(int type) {
  return type == WORK_P2P ? sizeof(struct p2p) : type == WORK_COLL ? sizeof(struct coll) : COLLREG_BYTES;
}

// The work may lie in the arguments, or in a ring buffer that wraps between any two units of 16 bytes.
static void read_batch(const struct args* a, const struct batch* batch, struct work* work) {
  work->size = size_of_work(batch->workType);
  for (int i = 0; i < 64; i++) {
    if (!(batch->offsetBitset >> i & 1)) continue;
    if (work->count == MOST_WORK) FAKE_DIE("more than %d pieces of work in one batch", MOST_WORK);
    char* to = work->bytes + (size_t)work->count++ * work->size;
    for (size_t o = 0; o < work->size; o += 16) {
      size_t at = batch->offsetBase + (size_t)i * work->size + o;
      const char* from =
          a->storage == STORAGE_ARGS ? (const char*)a + at : (const char*)a->workBuf + (at & a->workMask);
      memcpy(to + o, from, 16);
    }
  }
}

static bool is_profiled(const struct work* work, int type, int i) {
  const char* at = work->bytes + (size_t)i * work->size;
  return type == WORK_P2P ? ((const struct p2p*)at)->profiler : ((const struct coll*)at)->profiler;
}

static void stamp(struct profiler* profiler, int channel, uint64_t counter) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  profiler[channel].data[counter % 64].timestamp = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  __atomic_store_n(&profiler[channel].data[counter % 64].counter, counter, __ATOMIC_RELEASE);
}

static void play(struct comm* comm, int index, const struct batch* batch, struct work* work) {
  struct channel* channel = (struct channel*)((char*)comm + CHANNELS_OFFSET) + index;
  const struct function f = decode(batch->funcId);
  const uint64_t counter = channel->workCounter;
  FAKE_LOG(2, "channel %d: collective %d operation %d type %d algorithm %d protocol %d, %d pieces of work",
           index, f.collective, f.op, f.type, f.algorithm, f.protocol, work->count);
  for (int i = 0; i < work->count; i++)
    if (is_profiled(work, batch->workType, i)) stamp(comm->workStarted, index, counter + 1 + (uint64_t)i);
  if (f.collective == P2P) {
    play_p2p(comm, channel, index, (const struct p2p*)work->bytes, work->count);
  } else {
    for (int i = 0; i < work->count; i++)
      play_collective(comm, channel, index, f, (struct coll*)(work->bytes + (size_t)i * work->size));
  }
  for (int i = 0; i < work->count; i++)
    if (is_profiled(work, batch->workType, i)) stamp(comm->workCompleted, index, counter + 1 + (uint64_t)i);
  channel->workCounter = counter + (uint64_t)work->count;
}

// ---- launches

struct block {  // what a thread block of the kernel does: one channel
  pthread_t thread;
  const struct args* args;
  int index, channel;
};

static void* play_block(void* arg) {
  const struct block* b = arg;
  const struct batch* batch = (const struct batch*)(b->args + 1) + b->index;
  for (;;) {
    struct work work = {.count = 0};
    for (;; batch += batch->nextJump) {  // batches that extend one another are one
      read_batch(b->args, batch, &work);
      if (!batch->nextExtends) break;
    }
    play(b->args->comm, b->channel, batch, &work);
    if (!batch->nextJump) return NULL;
    batch += batch->nextJump;
  }
}

void fake_run_kernel(const char* name, void* arguments) {
  if (!strstr(name, "ncclDevKernel")) FAKE_DIE("kernel %s is not played", name);
  const struct args* args = arguments;
  struct block block[MAX_CHANNELS];
  int n = 0;
  for (int channel = 0; channel < MAX_CHANNELS; channel++) {
    if (!(args->channelMask >> channel & 1)) continue;
    block[n] = (struct block){.args = args, .index = n, .channel = channel};
    n++;
  }
  for (int i = 1; i < n; i++)
    if (pthread_create(&block[i].thread, NULL, play_block, &block[i]))
      FAKE_DIE("no thread for a channel: %m");
  if (n) play_block(&block[0]);
  for (int i = 1; i < n; i++) pthread_join(block[i].thread, NULL);
  FAKE_LOG(2, "done %s", name);
}
