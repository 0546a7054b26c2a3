#include "fabric_tools/memory.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace megascale {
namespace {

// A file that holds one number; a missing one, or "max", is no limit.
double number_in(const char* path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : 1e18;
}

double meminfo_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    double kilobytes = 0;
    if (name == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
    file.ignore(256, '\n');
  }
  return 1e18;
}

// What `ulimit -v` leaves.
double address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1e18;
  const double used = number_in("/proc/self/statm") * static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::max(static_cast<double>(limit.rlim_cur) - used, 0.0);
}

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

}  // namespace

Bytes available_memory() {
  const double limit = number_in("/sys/fs/cgroup/memory.max"),
               used = number_in("/sys/fs/cgroup/memory.current");
  const double in_group = limit < 1e18 && used < 1e18 ? std::max(limit - used, 0.0) : 1e18;
  return static_cast<Bytes>(std::min({meminfo_available(), in_group, address_space()}));
}

Bytes peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<Bytes>(usage.ru_maxrss) * 1024;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace megascale
