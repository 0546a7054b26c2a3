// The reduction of two arrays into a third, element by element: out[i] = a[i] op b[i].
//
// bf16 is computed in fp32 and rounded to nearest even. Integers wrap. The result does not depend on the
// machine's vector width. `out` may be `a` or `b`.
#pragma once
#include <cstddef>

#include "plugin/host/data_type.h"

namespace megascale::host {

void reduce(void* out, const void* a, const void* b, size_t count, DataType, ReduceOp);

float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);

}  // namespace megascale::host
