#include "trainer/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace megascale::trainer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTerminalInterval = std::chrono::milliseconds(200);
constexpr auto kPlainInterval = std::chrono::seconds(2);

}  // namespace

Progress::Progress(size_t steps, bool silent)
    : steps_(steps), silent_(silent), terminal_(isatty(STDOUT_FILENO) == 1) {}

Progress::~Progress() { clear(); }

std::string Progress::line(const StepReport& report) const {
  const double seconds = seconds_ > 0 ? seconds_ : 1;
  return fmt::format(
      "step {:>{}}/{}  loss {:.4f}  rate {:.1e}  {:>7.0f} tokens/s  network exposed {:>4.1f} %", report.step,
      std::to_string(steps_).size(), steps_, report.loss, report.rate, static_cast<double>(tokens_) / seconds,
      100 * exposed_seconds_ / seconds);
}

void Progress::step(const StepReport& report) {
  if (silent_) return;
  seconds_ += report.seconds;
  exposed_seconds_ += report.exposed_seconds;
  tokens_ += report.tokens;
  const auto now = Clock::now();
  const auto interval = terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration(kPlainInterval);
  if (report.step != 1 && report.step != steps_ && now - shown_ < interval) return;
  if (terminal_) {
    fmt::print("\r\x1b[K{}", line(report));
    in_place_ = true;
  } else {
    fmt::print("{}\n", line(report));
  }
  std::fflush(stdout);
  shown_ = now;
  seconds_ = exposed_seconds_ = 0;
  tokens_ = 0;
}

void Progress::say(const std::string& text) {
  if (silent_) return;
  clear();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Progress::clear() {
  if (in_place_) fmt::print("\n");
  in_place_ = false;
  std::fflush(stdout);
}

}  // namespace megascale::trainer
