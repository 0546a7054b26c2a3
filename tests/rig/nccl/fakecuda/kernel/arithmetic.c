// See arithmetic.h.
#include "tests/rig/nccl/fakecuda/kernel/arithmetic.h"

#include <string.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"
#include "tests/rig/nccl/fakecuda/kernel/abi.h"

const uint8_t element_size[ELEMENTS] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static float from_bfloat16(uint16_t v) {
  uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
static uint16_t to_bfloat16(float f) {  // to nearest, ties to even
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#define FOR_EACH(T, EXPRESSION)                            \
  do {                                                     \
    const T *x = a, *y = b;                                \
    T* d = to;                                             \
    (void)y;                                               \
    for (size_t i = 0; i < n; i++) d[i] = (T)(EXPRESSION); \
  } while (0)

// Minimum and maximum are one: the argument's bits are flipped into both sides of an unsigned comparison.
#define REDUCE_INTEGERS(T)                                                \
  switch (op) {                                                           \
    case SUM:                                                             \
    case PREMULSUM:                                                       \
    case SUMPOSTDIV:                                                      \
      FOR_EACH(T, x[i] + y[i]);                                           \
      return;                                                             \
    case PROD:                                                            \
      FOR_EACH(T, x[i] * y[i]);                                           \
      return;                                                             \
    case MINMAX:                                                          \
      FOR_EACH(T, (T)(x[i] ^ (T)arg) < (T)(y[i] ^ (T)arg) ? x[i] : y[i]); \
      return;                                                             \
  }

#define REDUCE_FLOATS(T, GET, PUT)                                     \
  switch (op) {                                                        \
    case SUM:                                                          \
    case PREMULSUM:                                                    \
      FOR_EACH(T, PUT(GET(x[i]) + GET(y[i])));                         \
      return;                                                          \
    case PROD:                                                         \
      FOR_EACH(T, PUT(GET(x[i]) * GET(y[i])));                         \
      return;                                                          \
    case MINMAX:                                                       \
      FOR_EACH(T, (GET(x[i]) > GET(y[i])) == (arg & 1) ? x[i] : y[i]); \
      return;                                                          \
  }

void reduce(int type, int op, uint64_t arg, void* to, const void* a, const void* b, size_t n) {
  switch (type) {
    case INT8:
    case UINT8:
      REDUCE_INTEGERS(uint8_t) break;
    case INT32:
    case UINT32:
      REDUCE_INTEGERS(uint32_t) break;
    case INT64:
    case UINT64:
      REDUCE_INTEGERS(uint64_t) break;
    case FLOAT16:
      REDUCE_FLOATS(_Float16, , ) break;
    case FLOAT32:
      REDUCE_FLOATS(float, , ) break;
    case FLOAT64:
      REDUCE_FLOATS(double, , ) break;
    case BFLOAT16:
      REDUCE_FLOATS(uint16_t, from_bfloat16, to_bfloat16) break;
  }
  FAKE_DIE("reduction %d over elements of type %d is not implemented", op, type);
}

#define SCALE(T)                          \
  do {                                    \
    T factor;                             \
    memcpy(&factor, &arg, sizeof factor); \
    FOR_EACH(T, x[i] * factor);           \
  } while (0)

void scale_before(int type, uint64_t arg, void* to, const void* a, size_t n) {
  const void* b = a;
  switch (type) {
    case INT8:
    case UINT8:
      SCALE(uint8_t);
      return;
    case INT32:
    case UINT32:
      SCALE(uint32_t);
      return;
    case INT64:
    case UINT64:
      SCALE(uint64_t);
      return;
    case FLOAT16:
      SCALE(_Float16);
      return;
    case FLOAT32:
      SCALE(float);
      return;
    case FLOAT64:
      SCALE(double);
      return;
    case BFLOAT16: {
      float factor = from_bfloat16((uint16_t)arg);
      FOR_EACH(uint16_t, to_bfloat16(from_bfloat16(x[i]) * factor));
      return;
    }
  }
  FAKE_DIE("scaling elements of type %d is not implemented", type);
}

// The argument is the divisor shifted left by one; the lowest bit says that the elements are signed.
#define DIVIDE(UNSIGNED, SIGNED)                                        \
  do {                                                                  \
    if (arg & 1) FOR_EACH(UNSIGNED, (SIGNED)x[i] / (SIGNED)(arg >> 1)); \
    else FOR_EACH(UNSIGNED, x[i] / (UNSIGNED)(arg >> 1));               \
  } while (0)

void divide_after(int type, uint64_t arg, void* to, size_t n) {
  const void *a = to, *b = to;
  switch (type) {
    case INT8:
    case UINT8:
      DIVIDE(uint8_t, int8_t);
      return;
    case INT32:
    case UINT32:
      DIVIDE(uint32_t, int32_t);
      return;
    case INT64:
    case UINT64:
      DIVIDE(uint64_t, int64_t);
      return;
  }
  FAKE_DIE("division of elements of type %d is not implemented", type);
}
