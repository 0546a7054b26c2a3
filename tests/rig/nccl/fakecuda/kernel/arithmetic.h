// The arithmetic of NCCL's reductions over its element types, on arrays in host memory.
#pragma once
#include <stddef.h>
#include <stdint.h>

extern const uint8_t element_size[];

// to[i] = a[i] (op) b[i]; `arg` is the operation's argument as NCCL's kernels get it.
void reduce(int type, int op, uint64_t arg, void* to, const void* a, const void* b, size_t n);
// to[i] = a[i] * arg, for the operation that scales each rank's input (average of floats, user's factors).
void scale_before(int type, uint64_t arg, void* to, const void* a, size_t n);
// to[i] /= arg, for the average of integers.
void divide_after(int type, uint64_t arg, void* to, size_t n);
