// A line on the terminal that says how far a long task is; nothing where standard error is no
// terminal.
#pragma once
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace megascale {

class Progress {
 public:
  explicit Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) != 0) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;

  // At most twice a second, and not in the first one. `text()` is asked for only then.
  template <class Text>
  void show(Text text) {
    if (!shown_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(500);
    std::fprintf(stderr, "\r\033[K%s", text().c_str());
    std::fflush(stderr);
    dirty_ = true;
  }

  void clear() {
    if (dirty_) std::fputs("\r\033[K", stderr);
    dirty_ = false;
  }

 private:
  bool shown_;
  bool dirty_ = false;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

}  // namespace megascale
