#include "plugin/guest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>

#include "transport/base/events.h"
#include "transport/base/log.h"
#include "transport/base/quantity.h"
#include "transport/base/statistics.h"

namespace megascale::plugin {
namespace {

std::atomic<abi::LogFunction> nccl_log{nullptr};  // of whoever came last; the thread may be logging

void through_nccl(Level level, const char* line) {
  abi::LogLevel l = level == Level::warn   ? abi::kLogWarn
                    : level == Level::info ? abi::kLogInfo
                                           : abi::kLogTrace;
  nccl_log.load()(l, abi::kLogNet | abi::kLogInit, __FILE__, __LINE__, "NET/Megascale : %s", line);
}

// Never destroyed: NCCL's threads may still be in it when the program's destructors run.
Guest* the_guest = nullptr;

void fresh_in_child() {
  tcp::close_all_in_child();
  the_guest = new Guest;  // the old one's thread and locks stayed with the parent
}

void at_exit() {
  if (the_guest && the_guest->process()) the_guest->report();
}

}  // namespace

Guest& Guest::get() {
  static std::once_flag once;
  std::call_once(once, [] {
    the_guest = new Guest;
    pthread_atfork(nullptr, nullptr, fresh_in_child);
    atexit(at_exit);
  });
  return *the_guest;
}

abi::Result to_nccl(Code c) {
  switch (c) {
    case Code::ok:
      return abi::kSuccess;
    case Code::system:
      return abi::kSystemError;
    case Code::internal:
      return abi::kInternalError;
    case Code::invalid_argument:
      return abi::kInvalidArgument;
    case Code::invalid_usage:
      return abi::kInvalidUsage;
    case Code::remote:
      return abi::kRemoteError;
  }
  return abi::kInternalError;
}

abi::Result Guest::enter(abi::LogFunction log) {
  std::lock_guard lock(mutex_);
  if (log) {
    nccl_log = log;
    log_to(through_nccl);
  }
  if (!process_ && (users_ == 0 || !rails_.empty())) {
    abi::Result r = start();
    if (r != abi::kSuccess) return r;
  }
  users_++;
  return abi::kSuccess;
}

abi::Result Guest::read_settings() {
  std::vector<std::string> complaints;
  Settings s = load_settings(&complaints);
  log_up_to(s.log);
  for (const auto& c : complaints) logf(Level::warn, "%s", c.c_str());
  if (s.secret_unreadable) {
    logf(Level::warn, "no secret can be read from \"%s\" although one is asked for: Megascale does not start",
         s.secret_file.c_str());
    return abi::kInvalidUsage;
  }
  settings_ = std::move(s);
  return abi::kSuccess;
}

abi::Result Guest::start() {
  if (!settings_)
    if (abi::Result r = read_settings(); r != abi::kSuccess) return r;
  const Settings& s = *settings_;
  if (auto why = s.events.empty() ? "" : open_events(s.events, s.rank); !why.empty())
    logf(Level::warn, "%s", why.c_str());
  auto process = Process::start(s, rails_);
  if (!process) {
    logf(Level::warn, "no device can be used: %s", process.error().message.c_str());
    if (!rails_.empty()) return abi::kSuccess;  // a late init does not fail; what it is for will, aloud
    bool asked_for = !s.rails.empty() || !s.interfaces.empty();
    settings_.reset();  // may be put right before the next init
    return asked_for ? to_nccl(process.error().code)
                     : abi::kSuccess;  // without devices NCCL takes another network
  }
  process_ = std::move(process).value();
  rails_ = process_->rails();
  reported_ = false;
  // A link that copies cannot keep the 128-byte lines of LL128 whole for a GPU that reads them on the way.
  if (!getenv("NCCL_PROTO")) {
    setenv("NCCL_PROTO", "^LL128", 0);
    logf(Level::info, "NCCL_PROTO is not set: it is now ^LL128, for links over TCP copy");
  }
  describe();
  return abi::kSuccess;
}

void Guest::describe() {
  std::string list;
  int i = 0;
  for (const auto& r : process_->rails()) {
    bool have =
        std::any_of(devices_.begin(), devices_.end(), [&](const auto& d) { return d->name == r.name; });
    int id = process_->settings().rails.empty() ? -1 : i;
    // NCCL has room for no more devices; rails beyond that remain spares.
    if (!have && static_cast<int>(devices_.size()) < abi::kMaxDevices)
      devices_.push_back(std::make_unique<Device>(Device{r.name, {i}, r.megabits, r.guid, r.pci_path, id}));
    list += (list.empty() ? "" : ", ") + r.name + " " + r.address.text();
    i++;
  }
  const tcp::Tuning& tuning = process_->tuning();
  const std::string cap =
      tuning.rate.is_unlimited() ? "" : ", at most " + text_of(tuning.rate) + " bit/s a connection and rail";
  logf(Level::info,
       "version " MEGASCALE_VERSION
       ", link tcp, congestion control %s by the kernel%s, rails: %s; a flap is ridden out "
       "for %.0f s",
       tuning.algorithm.empty() ? "default" : tuning.algorithm.c_str(), cap.c_str(), list.c_str(),
       seconds(process_->settings().flap_timeout));
  if (process_->settings().secret.empty())
    logf(Level::warn,
         "MEGASCALE_SECRET is not set: whoever reaches our port may join the job. Give all hosts the same "
         "random text (openssl rand -hex 16)");
}

void Guest::leave() {
  std::unique_ptr<Process> last;
  {
    std::lock_guard lock(mutex_);
    if (users_ == 0 || --users_ > 0) return;
    last = std::move(process_);
  }
  last.reset();  // outside the lock: it waits for last words
  report();
}

void Guest::report() {
  if (reported_.exchange(true)) return;
  emit_statistics();
  if (settings_ && settings_->summary) fputs(summary_table().c_str(), stderr);
}

int Guest::devices() {
  std::lock_guard lock(mutex_);
  return process_ ? static_cast<int>(devices_.size()) : 0;
}

const Device* Guest::device(int i) {
  std::lock_guard lock(mutex_);
  return i >= 0 && i < static_cast<int>(devices_.size()) ? devices_[static_cast<std::size_t>(i)].get()
                                                         : nullptr;
}

abi::Result Guest::merge(int* device, const int* members, int n) {
  std::lock_guard lock(mutex_);
  if (n < 1 || n > abi::kMaxDevicesPerNicV12) return abi::kInvalidArgument;
  Device d;
  for (int i = 0; i < n; i++) {
    int m = members[i];
    if (m < 0 || m >= static_cast<int>(devices_.size()) ||
        devices_[static_cast<std::size_t>(m)]->rails.size() != 1)
      return abi::kInvalidArgument;
    const Device& part = *devices_[static_cast<std::size_t>(m)];
    // NCCL takes devices without a PCI path for ports of one card, merges them, and then finds no way to the
    // result.
    if (part.pci_path.empty() && n > 1) return abi::kInvalidUsage;
    if (std::find(d.rails.begin(), d.rails.end(), part.rails[0]) != d.rails.end())
      return abi::kInvalidArgument;
    if (i) d.name += '+';
    d.name += part.name;
    d.rails.push_back(part.rails[0]);
    d.megabits += part.megabits;
    if (i == 0) {
      d.guid = part.guid;
      d.pci_path = part.pci_path;
    }
  }
  if (n == 1) return *device = members[0], abi::kSuccess;
  for (std::size_t i = 0; i < devices_.size(); i++)
    if (devices_[i]->name == d.name) return *device = static_cast<int>(i), abi::kSuccess;
  if (static_cast<int>(devices_.size()) >= abi::kMaxDevices) return abi::kInvalidUsage;
  devices_.push_back(std::make_unique<Device>(std::move(d)));
  *device = static_cast<int>(devices_.size()) - 1;
  return abi::kSuccess;
}

}  // namespace megascale::plugin
