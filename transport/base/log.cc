#include "transport/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace megascale {
namespace {

constexpr char kOpening[] = "megascale: ";
constexpr size_t kOpeningSize = sizeof(kOpening) - 1;
constexpr size_t kMaxLine = 2048;
constexpr char kCut[] = " ...";

std::atomic<LogFunction> sink{nullptr};
std::atomic<Level> loudest{Level::info};

// One write for the whole line, so that the lines of several ranks on one terminal do not mix.
void write_to_stderr(char* line, size_t size) {
  line[size++] = '\n';
  while (write(STDERR_FILENO, line, size) < 0 && errno == EINTR) {
  }
}

}  // namespace

void log_to(LogFunction function) { sink.store(function, std::memory_order_release); }

void log_up_to(Level level) { loudest.store(level, std::memory_order_relaxed); }

void log_up_to(std::string_view word) {
  if (word == "warn") log_up_to(Level::warn);
  if (word == "info") log_up_to(Level::info);
  if (word == "trace") log_up_to(Level::trace);
}

bool logs(Level level) { return level <= loudest.load(std::memory_order_relaxed); }

void logf(Level level, const char* format, ...) {
  if (!logs(level)) return;
  const int saved_errno = errno;
  char line[kOpeningSize + kMaxLine + sizeof kCut + 1];
  std::memcpy(line, kOpening, kOpeningSize);
  char* text = line + kOpeningSize;

  va_list arguments;
  va_start(arguments, format);
  const int wanted = vsnprintf(text, kMaxLine, format, arguments);
  va_end(arguments);
  if (wanted < 0) return;

  size_t size = static_cast<size_t>(wanted);
  if (size >= kMaxLine) {
    std::memcpy(text + kMaxLine - 1, kCut, sizeof kCut);
    size = kMaxLine - 1 + sizeof kCut - 1;
  }
  if (LogFunction function = sink.load(std::memory_order_acquire)) {
    function(level, text);
  } else {
    write_to_stderr(line, kOpeningSize + size);
  }
  errno = saved_errno;
}

}  // namespace megascale
