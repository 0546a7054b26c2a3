// Which of the compiled loops this CPU runs.
#include "trainer/kernels/cpu/vector_loops.h"

namespace megascale::trainer {

const VectorLoops& vector_loops() {
#ifdef MEGASCALE_X86_LOOPS
  // The flags that the build gives to each: x86-64-v4 and x86-64-v3 in the psABI's words.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd"))
    return vector_loops_avx512();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2"))
    return vector_loops_avx2();
#endif
  return vector_loops_baseline();
}

}  // namespace megascale::trainer
