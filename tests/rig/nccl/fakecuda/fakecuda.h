// What the parts of the CPU stand-in for CUDA share: genuine libnccl runs on it where there is no GPU.
//
// Memory posing as device memory is host memory, streams are ordered queues, and NCCL's kernels are played by
// CPU threads (kernel/). Only libnccl's own machine code decides what is sent where; nothing of it is rebuilt
// here.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define UNUSED __attribute__((unused))

// libnccl_patch.c: the libnccl of this process, found in the link map
int fake_attach(void);                         // replaces its CUDA functions (idempotent); -1: not loaded yet
const char* fake_symbol_at(const void* addr);  // the name of a function of libnccl by its address
void* fake_symbol(const char* name, size_t* size);  // the address of a (possibly local) symbol of libnccl
int fake_in_nccl(const void* addr);

// devices.c
int fake_device_count(void);
int fake_device_by_bus(const char* bus);  // -1: none
int fake_current_device(void);

// memory.c: the allocation that holds an address
struct fake_allocation {
  struct fake_allocation* next;
  char* start;
  size_t bytes;
  int host, device;
};
int fake_find_allocation(const void* address, struct fake_allocation* found);

// streams.c: queues a kernel; `args` is owned by the stream from here on
void fake_submit_kernel(void* stream, const char* name, void* args, size_t bytes);
void fake_drain(void* stream);

// kernel/launch.c: runs one launched kernel to its end on CPU threads
void fake_run_kernel(const char* name, void* args);

// 1: oddities, 2: launches and the work in them, 3: every call that is absent or does nothing
int fake_verbosity(void);

#define FAKE_LOG(level, ...)                            \
  do {                                                  \
    if (fake_verbosity() >= (level)) {                  \
      flockfile(stderr);                                \
      fprintf(stderr, "fakecuda[%d]: ", (int)getpid()); \
      fprintf(stderr, __VA_ARGS__);                     \
      fputc('\n', stderr);                              \
      funlockfile(stderr);                              \
    }                                                   \
  } while (0)

#define FAKE_DIE(...)                                        \
  do {                                                       \
    fprintf(stderr, "fakecuda: cannot go on: " __VA_ARGS__); \
    fputc('\n', stderr);                                     \
    abort();                                                 \
  } while (0)
