#include "plugin/host/log.h"

#include <strings.h>
#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace megascale::host {
namespace {

constexpr std::chrono::seconds kStillNews{2};

std::mutex mutex;
std::string last_warning;
std::chrono::steady_clock::time_point last_warning_at;
thread_local std::string own_warning;

abi::LogLevel chosen_level() {
  const char* text = std::getenv("NCCL_DEBUG");
  if (text == nullptr) return abi::kLogWarn;
  if (strcasecmp(text, "VERSION") == 0 || strcasecmp(text, "WARN") == 0) return abi::kLogWarn;
  if (strcasecmp(text, "INFO") == 0) return abi::kLogInfo;
  if (strcasecmp(text, "ABORT") == 0) return abi::kLogAbort;
  if (strcasecmp(text, "TRACE") == 0) return abi::kLogTrace;
  return abi::kLogWarn;
}

const char* level_name(abi::LogLevel level) {
  switch (level) {
    case abi::kLogWarn:
      return "WARN";
    case abi::kLogInfo:
      return "INFO";
    case abi::kLogTrace:
      return "TRACE";
    default:
      return "LOG";
  }
}

__attribute__((format(printf, 5, 6))) void log_line(abi::LogLevel level, unsigned long /*flags*/,
                                                    const char* /*file*/, int /*line*/, const char* format,
                                                    ...) {
  static const abi::LogLevel limit = chosen_level();
  if (level > limit && level != abi::kLogWarn) return;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (level == abi::kLogWarn) {
    std::lock_guard lock(mutex);
    last_warning = own_warning = text;
    last_warning_at = std::chrono::steady_clock::now();
  }
  const char* rank = std::getenv("MEGASCALE_RANK");
  std::fprintf(stderr, "[%d%s%s] NET %s %s\n", getpid(), rank ? " rank " : "", rank ? rank : "",
               level_name(level), text);
}

}  // namespace

abi::LogFunction logger() { return log_line; }

std::string take_last_warning() {
  if (!own_warning.empty()) return std::exchange(own_warning, {});
  std::lock_guard lock(mutex);
  const bool news = std::chrono::steady_clock::now() - last_warning_at < kStillNews;
  return news ? last_warning : std::string();
}

std::string describe(abi::Result result) {
  static constexpr const char* names[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                          "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                          "ncclRemoteError",   "ncclInProgress"};
  const int code = static_cast<int>(result);
  const char* name = code >= 0 && code < 8 ? names[code] : "an unknown result";
  return std::string(name) + " (" + std::to_string(code) + ")";
}

}  // namespace megascale::host
