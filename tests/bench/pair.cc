#include "tests/bench/pair.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace megascale::bench {
namespace {

constexpr int kDeadlineMs = 120'000;

void all(bool write_it, int fd, void* data, std::size_t n) {
  auto* p = static_cast<char*>(data);
  while (n) {
    ssize_t k = write_it ? write(fd, p, n) : read(fd, p, n);
    if (k <= 0) throw std::runtime_error("the other process of the pair is gone");
    p += k;
    n -= static_cast<std::size_t>(k);
  }
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

struct Child {
  pid_t pid = 0;
  int result = -1;
};

Child spawn(const Side& side, int cpu, int mine, int other) {
  int result[2];
  if (pipe(result)) throw std::runtime_error("no pipe");
  pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid) {
    close(result[1]);
    return {pid, result[0]};
  }
  close(other);
  close(result[0]);
  pin(cpu);
  try {
    Cost c = side(Exchange(mine, mine));
    double head[4] = {c.began, c.ended, c.cpu, static_cast<double>(c.samples.size())};
    all(true, result[1], head, sizeof head);
    all(true, result[1], c.samples.data(), c.samples.size() * sizeof(double));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    _exit(1);
  }
  _exit(0);
}

Cost result_of(const Child& c) {
  pollfd p{c.result, POLLIN, 0};
  if (poll(&p, 1, kDeadlineMs) <= 0) throw std::runtime_error("a measurement did not end in time");
  double head[4];
  all(false, c.result, head, sizeof head);
  Cost r{head[0], head[1], head[2], std::vector<double>(static_cast<std::size_t>(head[3]))};
  all(false, c.result, r.samples.data(), r.samples.size() * sizeof(double));
  return r;
}

}  // namespace

double seconds_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double cpu_seconds() {
  rusage r;
  getrusage(RUSAGE_SELF, &r);
  auto s = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return s(r.ru_utime) + s(r.ru_stime);
}

void Exchange::tell(const void* data, std::size_t n) const { all(true, out_, const_cast<void*>(data), n); }
void Exchange::hear(void* data, std::size_t n) const { all(false, in_, data, n); }
void Exchange::meet() const {
  char c = 1;
  tell(&c, 1);
  hear(&c, 1);
}

Outcome run_pair(const Side& sender, const Side& receiver) {
  int s[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) throw std::runtime_error("no socket pair");
  Child children[2] = {spawn(sender, 0, s[0], s[1]), spawn(receiver, 1, s[1], s[0])};
  close(s[0]);
  close(s[1]);
  std::string trouble;
  Cost costs[2];
  for (int i = 0; i < 2; i++) {
    try {
      if (trouble.empty()) costs[i] = result_of(children[i]);
    } catch (const std::exception& e) {
      trouble = e.what();
    }
  }
  for (auto& c : children) {
    if (!trouble.empty()) kill(c.pid, SIGKILL);
    waitpid(c.pid, nullptr, 0);
    close(c.result);
  }
  if (!trouble.empty()) throw std::runtime_error(trouble);
  return {std::max(costs[0].ended, costs[1].ended) - costs[0].began, costs[0].cpu + costs[1].cpu,
          std::move(costs[0].samples)};
}

}  // namespace megascale::bench
