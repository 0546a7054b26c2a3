// How much memory there is, how much this process took, and how long its CPUs worked.
#pragma once
#include "cc/units.h"

namespace megascale {

Bytes available_memory();  // that can be had without swapping, within the limits of the control group and of
                           // the process
Bytes peak_memory();       // of this process, so far
double cpu_seconds();      // of all its threads, user and system
double thread_cpu_seconds();

}  // namespace megascale
