#include "transport/base/events.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "transport/base/json.h"

namespace megascale {
namespace {

std::atomic<int> events_file{-1};
std::atomic<int> file_rank{-1};
std::atomic<int> writers{
    0};  // inside write_line, so that a close does not pull the descriptor from under them
std::atomic<bool> torn{false};  // the last line did not get whole into the file
std::atomic<uint64_t> lost{0};
std::mutex opening;     // only open and close take it
std::string open_name;  // under `opening`

int64_t now_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Not gmtime_r, which takes libc's time zone lock: another thread may have held it when this process was
// forked.
std::string rfc3339_now() {
  using namespace std::chrono;
  const sys_time<milliseconds> now{floor<milliseconds>(nanoseconds(now_ns(CLOCK_REALTIME)))};
  const auto midnight = floor<days>(now);
  const year_month_day date{midnight};
  const hh_mm_ss time{now - midnight};
  char text[64];
  snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", int(date.year()), unsigned(date.month()),
           unsigned(date.day()), int(time.hours().count()), int(time.minutes().count()),
           int(time.seconds().count()), int(time.subseconds().count()));
  return text;
}

std::string expand(const std::string& pattern, int rank) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'p') name += std::to_string(getpid());
    if (next == 'r') name += rank < 0 ? "none" : std::to_string(rank);
    if (next == '%') name += '%';
    if (next == 'p' || next == 'r' || next == '%') ++i;
    else name += pattern[i];
  }
  return name;
}

bool write_whole(int fd, std::string_view line) {
  while (!line.empty()) {
    const ssize_t n = write(fd, line.data(), line.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    line.remove_prefix(static_cast<size_t>(n));
    if (!line.empty()) torn.store(true);
  }
  torn.store(false);
  return true;
}

void write_line(std::string& line) {
  const int saved_errno = errno;
  writers.fetch_add(1);
  if (const int fd = events_file.load(); fd >= 0) {
    if (torn.load()) line.insert(0, 1, '\n');
    if (!write_whole(fd, line)) lost.fetch_add(1);
  }
  writers.fetch_sub(1);
  errno = saved_errno;
}

void retire(int fd) {
  if (fd < 0) return;
  // In a child of fork() a writer of the parent may be counted for ever; then the descriptor is left open.
  for (int i = 0; i < 10'000 && writers.load() > 0; ++i) sched_yield();
  if (writers.load() == 0) close(fd);
}

std::string refusal(const std::string& name, const char* why) {
  return "opening MEGASCALE_EVENTS file " + name + " for appending failed: " + why +
         "; no events are written. Name a file in a directory that this process may write to";
}

}  // namespace

std::string open_events(const std::string& pattern, int rank) {
  const std::string name = expand(pattern, rank);
  const std::lock_guard lock(opening);
  if (events_file.load() >= 0 && name == open_name) return {};

  // O_NONBLOCK: a pipe that nobody reads must not hold the process up.
  const int fd = open(name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (fd < 0) return refusal(name, strerrordesc_np(errno));
  struct stat status {};
  if (fstat(fd, &status) != 0 || (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))) {
    close(fd);  // Writing to a broken pipe would raise SIGPIPE in a process that is not ours.
    return refusal(name, "it is neither a regular file nor a character device");
  }
  open_name = name;
  file_rank.store(rank);
  retire(events_file.exchange(fd));
  return {};
}

void close_events() {
  const std::lock_guard lock(opening);
  retire(events_file.exchange(-1));
  open_name.clear();
}

bool events_on() { return events_file.load(std::memory_order_relaxed) >= 0; }

uint64_t events_lost() { return lost.load(); }

Event::Event(std::string_view name) : on_(events_on()) {
  if (!on_) return;
  line_.reserve(256);
  line_ = "{\"time\":\"" + rfc3339_now() + "\",\"mono_ns\":" + std::to_string(now_ns(CLOCK_MONOTONIC)) +
          ",\"pid\":" + std::to_string(getpid()) + ",\"rank\":" + std::to_string(file_rank.load());
  text("event", name);
}

Event& Event::text(std::string_view key, std::string_view value) {
  raw(key, "");
  append_json_string(line_, value);
  return *this;
}

Event& Event::raw(std::string_view key, std::string_view value) {
  line_ += ',';
  append_json_string(line_, key);
  line_ += ':';
  line_ += value;
  return *this;
}

Event& Event::number(std::string_view key, double value) {
  raw(key, "");
  append_json_number(line_, value);
  return *this;
}

void Event::emit() {
  if (!on_ || line_.empty()) return;
  line_ += "}\n";
  write_line(line_);
  line_.clear();
}

}  // namespace megascale
