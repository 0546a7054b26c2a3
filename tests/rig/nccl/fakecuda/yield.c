// A yield that lets others run: takes the place of libc's sched_yield in the whole process, libnccl included.
//
// NCCL's progress thread spins on sched_yield while it has nothing to do, which is right beside a GPU. Here
// its ranks, and the threads that play their GPUs, share a few CPUs; and there are kernels (6.18 is one)
// where threads that only yield keep everybody else off a CPU, the kernel's own threads included, for a
// minute and more.
#include <sched.h>
#include <time.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"

EXPORTED int sched_yield(void) {
  const struct timespec a_moment = {.tv_nsec = 20 * 1000};
  nanosleep(&a_moment, NULL);
  return 0;
}
