// Memory: host pages that are remembered, so that a pointer can be told to be "device" or host memory.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"

static struct fake_allocation* allocations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cudaError_t allocate(void** out, size_t bytes, int host) {
  const size_t page = 4096;
  struct fake_allocation* a = calloc(1, sizeof *a);
  if (!a || bytes > SIZE_MAX - page) return free(a), cudaErrorMemoryAllocation;
  a->bytes = bytes ? (bytes + page - 1) & ~(page - 1) : page;
  a->start = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (a->start == MAP_FAILED) return free(a), cudaErrorMemoryAllocation;
  a->host = host;
  a->device = fake_current_device();
  pthread_mutex_lock(&lock);
  a->next = allocations;
  allocations = a;
  pthread_mutex_unlock(&lock);
  *out = a->start;
  return cudaSuccess;
}

static cudaError_t release(void* start) {
  if (!start) return cudaSuccess;
  pthread_mutex_lock(&lock);
  struct fake_allocation **link = &allocations, *a;
  while ((a = *link) && a->start != start) link = &a->next;
  if (a) *link = a->next;
  pthread_mutex_unlock(&lock);
  if (!a) return cudaErrorInvalidValue;
  munmap(a->start, a->bytes);
  free(a);
  return cudaSuccess;
}

int fake_find_allocation(const void* address, struct fake_allocation* found) {
  const char* p = address;
  pthread_mutex_lock(&lock);
  struct fake_allocation* a = allocations;
  while (a && !(p >= a->start && p < a->start + a->bytes)) a = a->next;
  if (a) *found = *a;
  pthread_mutex_unlock(&lock);
  return a != NULL;
}

EXPORTED cudaError_t cudaMalloc(void** p, size_t n) { return allocate(p, n, 0); }
EXPORTED cudaError_t cudaFree(void* p) { return release(p); }
EXPORTED cudaError_t cudaHostAlloc(void** p, size_t n, unsigned flags UNUSED) { return allocate(p, n, 1); }
EXPORTED cudaError_t cudaMallocHost(void** p, size_t n) { return allocate(p, n, 1); }
EXPORTED cudaError_t cudaFreeHost(void* p) { return release(p); }
EXPORTED cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t s UNUSED) { return allocate(p, n, 0); }
EXPORTED cudaError_t cudaMallocFromPoolAsync(void** p, size_t n, cudaMemPool_t pool UNUSED,
                                             cudaStream_t s UNUSED) {
  return allocate(p, n, 0);
}
EXPORTED cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  fake_drain(s);
  return release(p);
}
EXPORTED cudaError_t cudaHostRegister(void* p UNUSED, size_t n UNUSED, unsigned flags UNUSED) {
  return cudaSuccess;
}
EXPORTED cudaError_t cudaHostUnregister(void* p UNUSED) { return cudaSuccess; }
EXPORTED cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags UNUSED) {
  *device = host;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* p) {
  struct fake_allocation a;
  memset(attributes, 0, sizeof *attributes);
  if (!fake_find_allocation(p, &a))
    return cudaSuccess;  // CUDA, too, calls this unregistered memory, not an error
  attributes->type = a.host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = a.device;
  attributes->devicePointer = attributes->hostPointer = (void*)p;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                                       const struct cudaMemPoolProps* properties UNUSED) {
  static char the_pool;
  *pool = (cudaMemPool_t)&the_pool;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool UNUSED) { return cudaSuccess; }
EXPORTED cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool UNUSED, enum cudaMemPoolAttr attribute UNUSED,
                                             void* value UNUSED) {
  return cudaSuccess;
}
