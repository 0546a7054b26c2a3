// Streams and events: a stream does its work in order; one that is idle copies at once, one given a kernel
// gets a thread.
//
// One lock and one condition serve them all: this is for tests of correctness, not a driver.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct event {
  uint64_t recorded, completed;
  int references;
};

enum kind { COPY, SET, RECORD, WAIT, KERNEL, CALL };
struct operation {
  struct operation* next;
  enum kind kind;
  void* target;
  const void* source;
  size_t bytes;
  int value;
  struct event* event;
  uint64_t sequence;
  void (*function)(void*);
  const char* name;
};

struct stream {
  struct operation *head, **tail;
  bool busy, threaded, dying;
};
static struct stream default_stream = {.tail = &default_stream.head};

static struct stream* stream_of(cudaStream_t s) {
  return (uintptr_t)s <= 2 ? &default_stream
                           : (struct stream*)s;  // 1 and 2 name the legacy and per-thread streams
}

static void unreference(struct event* e) {  // the lock is held
  if (--e->references == 0) free(e);
}

static void finish_event(struct operation* o) {
  pthread_mutex_lock(&lock);
  if (o->kind == RECORD) {
    if (o->event->completed < o->sequence) o->event->completed = o->sequence;
    pthread_cond_broadcast(&changed);
  } else {
    while (o->event->completed < o->sequence) pthread_cond_wait(&changed, &lock);
  }
  unreference(o->event);
  pthread_mutex_unlock(&lock);
}

static void perform(struct operation* o) {  // the lock is not held
  switch (o->kind) {
    case COPY:
      memmove(o->target, o->source, o->bytes);
      break;
    case SET:
      memset(o->target, o->value, o->bytes);
      break;
    case CALL:
      o->function(o->target);
      break;
    case KERNEL:
      fake_run_kernel(o->name, o->target);
      free(o->target);
      break;
    case RECORD:
    case WAIT:
      finish_event(o);
      break;
  }
}

static void* work(void* arg) {
  struct stream* s = arg;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (s->busy || (!s->head && !s->dying)) pthread_cond_wait(&changed, &lock);
    if (!s->head) break;
    struct operation* o = s->head;
    s->head = o->next;
    if (!s->head) s->tail = &s->head;
    s->busy = true;
    pthread_mutex_unlock(&lock);
    perform(o);
    free(o);
    pthread_mutex_lock(&lock);
    s->busy = false;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  free(s);
  return NULL;
}

static void enqueue(struct stream* s, const struct operation* o) {  // the lock is held
  struct operation* copy = malloc(sizeof *copy);
  if (!copy) FAKE_DIE("out of memory for a stream");
  *copy = *o;
  copy->next = NULL;
  *s->tail = copy;
  s->tail = &copy->next;
  if (!s->threaded) {
    pthread_t thread;
    s->threaded = true;
    if (pthread_create(&thread, NULL, work, s)) FAKE_DIE("no thread for a stream: %m");
    pthread_detach(thread);
  }
  pthread_cond_broadcast(&changed);
}

static cudaError_t submit(cudaStream_t stream, struct operation o) {
  struct stream* s = stream_of(stream);
  pthread_mutex_lock(&lock);
  if (o.kind == RECORD) o.sequence = ++o.event->recorded, o.event->references++;
  if (o.kind == WAIT) o.sequence = o.event->recorded, o.event->references++;
  bool idle = !s->head && !s->busy;
  bool immediate = o.kind == COPY || o.kind == SET || o.kind == RECORD ||
                   (o.kind == WAIT && o.event->completed >= o.sequence);
  if (idle && immediate) {
    s->busy = true;
    pthread_mutex_unlock(&lock);
    perform(&o);
    pthread_mutex_lock(&lock);
    s->busy = false;
    pthread_cond_broadcast(&changed);
  } else {
    enqueue(s, &o);
  }
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}

void fake_submit_kernel(void* stream, const char* name, void* args, size_t bytes) {
  submit(stream, (struct operation){.kind = KERNEL, .target = args, .bytes = bytes, .name = name});
}

void fake_drain(void* stream) {
  struct stream* s = stream_of(stream);
  pthread_mutex_lock(&lock);
  while (s->head || s->busy) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags UNUSED) {
  struct stream* s = calloc(1, sizeof *s);
  if (!s) return cudaErrorMemoryAllocation;
  s->tail = &s->head;
  *out = (cudaStream_t)s;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
EXPORTED cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int priority UNUSED) {
  return cudaStreamCreateWithFlags(s, flags);
}
EXPORTED cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  fake_drain(s);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamQuery(cudaStream_t stream) {
  struct stream* s = stream_of(stream);
  pthread_mutex_lock(&lock);
  bool pending = s->head || s->busy;
  pthread_mutex_unlock(&lock);
  return pending ? cudaErrorNotReady : cudaSuccess;
}
EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  struct stream* s = stream_of(stream);
  if (s == &default_stream) return cudaErrorInvalidResourceHandle;
  pthread_mutex_lock(&lock);
  bool threaded = s->threaded;
  s->dying = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  if (!threaded) free(s);  // else its thread does, when the queue is empty
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceSynchronize(void) {
  fake_drain(NULL);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamIsCapturing(cudaStream_t s UNUSED, enum cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s UNUSED, enum cudaStreamCaptureStatus* status,
                                              unsigned long long* id, cudaGraph_t* graph,
                                              const cudaGraphNode_t** dependencies,
                                              const cudaGraphEdgeData** edges, size_t* count) {
  *status = cudaStreamCaptureStatusNone;
  if (id) *id = 0;
  if (graph) *graph = NULL;
  if (dependencies) *dependencies = NULL;
  if (edges) *edges = NULL;
  if (count) *count = 0;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags UNUSED) {
  struct event* e = calloc(1, sizeof *e);
  if (!e) return cudaErrorMemoryAllocation;
  e->references = 1;
  *out = (cudaEvent_t)e;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t e) {
  pthread_mutex_lock(&lock);
  unreference((struct event*)e);
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  return submit(s, (struct operation){.kind = RECORD, .event = (struct event*)e});
}
EXPORTED cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags UNUSED) {
  return submit(s, (struct operation){.kind = WAIT, .event = (struct event*)e});
}
EXPORTED cudaError_t cudaEventQuery(cudaEvent_t event) {
  struct event* e = (struct event*)event;
  pthread_mutex_lock(&lock);
  bool done = e->completed >= e->recorded;
  pthread_mutex_unlock(&lock);
  return done ? cudaSuccess : cudaErrorNotReady;
}
EXPORTED cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  struct event* e = (struct event*)event;
  pthread_mutex_lock(&lock);
  uint64_t sequence = e->recorded;
  while (e->completed < sequence) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}

EXPORTED cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t function, void* arg) {
  return submit(s, (struct operation){.kind = CALL, .function = function, .target = arg});
}
EXPORTED cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, enum cudaMemcpyKind kind UNUSED,
                                     cudaStream_t s) {
  return submit(s, (struct operation){.kind = COPY, .target = to, .source = from, .bytes = n});
}
EXPORTED cudaError_t cudaMemsetAsync(void* to, int value, size_t n, cudaStream_t s) {
  return submit(s, (struct operation){.kind = SET, .target = to, .value = value, .bytes = n});
}
EXPORTED cudaError_t cudaMemcpy(void* to, const void* from, size_t n, enum cudaMemcpyKind kind UNUSED) {
  fake_drain(NULL);
  memmove(to, from, n);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaMemset(void* to, int value, size_t n) {
  fake_drain(NULL);
  memset(to, value, n);
  return cudaSuccess;
}
