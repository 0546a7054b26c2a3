#include "fabric_tools/lab/job.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "fabric_tools/lab/injector.h"
#include "fabric_tools/lab/journal.h"
#include "fabric_tools/lab/namespaces.h"
#include "fabric_tools/lab/process.h"
#include "plugin/host/launch.h"
#include "plugin/host/secret.h"

namespace megascale::lab {
namespace {

constexpr Duration kFileInterval = 20ms;
constexpr Duration kTermGrace = 3s;  // between SIGTERM and SIGKILL

// SIGINT, SIGTERM, SIGHUP and SIGCHLD as readable events, so that no handler interrupts the cleaning up.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) throw std::runtime_error(fmt::format("signalfd: {}", strerror(errno)));
  }
  ~Signals() {
    close(fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Waits; a signal that asks us to stop, or 0.
  int wait(Duration longest) {
    pollfd entry{fd_, POLLIN, 0};
    auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
    poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(milliseconds, 0, 1000)));
    int stop = 0;
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) stop = static_cast<int>(info.ssi_signo);
    }
    return stop;
  }

 private:
  int fd_ = -1;
  sigset_t before_{};
};

struct Process {
  Rank place;
  pid_t pid = -1;  // -1: ended, or not yet started
};

class Job {
 public:
  explicit Job(const JobOptions& options);
  ~Job();
  int run();

 private:
  static Plan make_plan(const JobOptions& options);
  void start_ranks();
  void play_faults();
  void look_for_files();
  void reap();
  void note_end(const Process& process, int status);
  void mind_deadlines(int stop_signal);
  void stop_all(int result, const std::string& why);
  void signal_all(int number);
  Duration until_next() const;
  bool any_alive() const {
    return std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.pid > 0; });
  }

  const JobOptions& options_;
  Signals signals_;  // before all else: from here on nothing interrupts us
  Journal journal_;
  Plan plan_;
  Timeline timeline_;
  std::unique_ptr<Namespaces> namespaces_;
  Injector injector_;
  std::vector<Process> processes_;
  std::vector<Step> lasting_;
  std::optional<int> result_;          // once something failed
  std::optional<Duration> terminate_;  // when the rest is asked to end
  std::optional<Duration> kill_;       // when the rest is made to
};

Plan Job::make_plan(const JobOptions& options) {
  std::string why = options.loopback ? "as asked" : why_no_namespaces();
  if (why.empty()) return {options.shape, Kind::namespaces, getpid()};
  fmt::print(stderr,
             "lab: no network namespaces: {}. Rails are loopback addresses instead: of the faults only "
             "`kill` (as root) and `sigkill` can happen; the others are skipped.\n",
             why);
  return {options.shape, Kind::loopback, getpid(), host::free_rendezvous()};
}

Schedule schedule_of(const JobOptions& options) {
  if (options.faults.empty() || options.faults == "none") return {};
  return read_schedule(options.faults, options.shape, options.after_file);
}

Job::Job(const JobOptions& options)
    : options_(options),
      journal_(options.events),
      plan_(make_plan(options)),
      timeline_(schedule_of(options)),
      injector_(plan_, [this](int rank) { return processes_[static_cast<size_t>(rank)].pid; }) {
  if (options.command.empty()) throw std::invalid_argument("no command to run");
  if (find_program(options.command[0]).empty()) {
    throw std::invalid_argument(fmt::format("cannot find the command `{}`", options.command[0]));
  }
  if (!options.logs.empty()) std::filesystem::create_directories(options.logs);
  if (plan_.kind() == Kind::namespaces) namespaces_ = std::make_unique<Namespaces>(plan_);
}

Job::~Job() {
  signal_all(SIGKILL);
  for (Process& process : processes_) {
    // A killed process ends as soon as the kernel is done with it; not to wait would leave its namespace
    // behind.
    for (int i = 0; process.pid > 0 && i < 500; ++i) {
      if (reap_child(process.pid)) process.pid = -1;
      else usleep(10'000);
    }
  }
  if (!options_.keep || !namespaces_) return;
  for (const Step& step : lasting_) injector_.end(step.id, step.fault);
  namespaces_->keep();
  for (const std::string& name : plan_.namespaces()) {
    fmt::print(stderr,
               "lab: kept network namespace {0} (enter: ip netns exec {0} bash; remove: megascale-fabric lab "
               "clean)\n",
               name);
  }
}

void Job::start_ranks() {
  host::ensure_job_secret();
  processes_.resize(plan_.ranks().size());
  for (const Rank& rank : plan_.ranks()) {
    ChildOptions child;
    child.argv = options_.command;
    child.argv[0] = find_program(child.argv[0]);
    if (namespaces_)
      child.argv.insert(child.argv.begin(), {"ip", "netns", "exec", plan_.host_namespace(rank.host)});
    child.environment = plan_.environment(rank);
    if (!options_.logs.empty()) child.output_file = fmt::format("{}/rank-{}.log", options_.logs, rank.rank);
    Process& process = processes_[static_cast<size_t>(rank.rank)];
    process = {rank, start_child(child)};
  }
  const Shape& shape = plan_.shape();
  journal_.start_clock();
  journal_.note(
      fmt::format("{} ranks on {} hosts joined by {} rails ({}): {}", shape.ranks, shape.hosts, shape.rails,
                  namespaces_ ? "network namespaces" : "loopback addresses", quoted(options_.command)),
      Event("lab_start")
          .with("hosts", shape.hosts)
          .with("rails", shape.rails)
          .with("ranks", shape.ranks)
          .with("namespaces", namespaces_ != nullptr));
}

int Job::run() {
  start_ranks();
  for (;;) {
    reap();
    if (!any_alive()) break;
    play_faults();
    mind_deadlines(signals_.wait(until_next()));
  }
  if (size_t left = timeline_.faults_to_come()) {
    std::string sentence =
        fmt::format("{} fault{} of the schedule had not come yet", left, left > 1 ? "s" : "");
    journal_.note(sentence, Event("faults_left").with("count", left));
  }
  int result = result_.value_or(0);
  journal_.note(result == 0 ? "every rank ended well" : fmt::format("ends with status {}", result),
                Event("lab_end").with("status", result));
  return result;
}

Duration Job::until_next() const {
  Duration now = journal_.elapsed(), longest = 1s;
  if (!timeline_.awaited_files().empty()) longest = kFileInterval;
  std::optional<Duration> timeout = result_ ? std::nullopt : options_.timeout;
  for (std::optional<Duration> due : {timeline_.next(), terminate_, kill_, timeout}) {
    if (due) longest = std::min(longest, std::max(*due - now, Duration(0)));
  }
  return longest;
}

void Job::look_for_files() {
  for (const std::string& file : timeline_.awaited_files()) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0 || status.st_size == 0) continue;
    journal_.note(fmt::format("{} is there: faults count from now", file),
                  Event("file_appeared").with("file", file));
    timeline_.file_appeared(file, journal_.elapsed());
  }
}

void Job::play_faults() {
  look_for_files();
  while (std::optional<Step> step = timeline_.pop_due(journal_.elapsed())) {
    const Fault& fault = step->fault;
    auto same = [&](const Step& other) { return other.id == step->id; };
    auto begun = std::find_if(lasting_.begin(), lasting_.end(), same);
    if (!step->begin && begun == lasting_.end()) continue;  // was skipped when it should have begun
    const Duration began = journal_.elapsed();
    Outcome outcome = step->begin ? injector_.begin(step->id, fault) : injector_.end(step->id, fault);
    if (!step->begin) lasting_.erase(begun);
    if (step->begin && outcome.effect != Effect::skipped && fault.kind != FaultKind::kill &&
        fault.kind != FaultKind::sigkill) {
      lasting_.push_back(*step);
    }
    const char* effect = outcome.effect == Effect::done      ? "done"
                         : outcome.effect == Effect::skipped ? "skipped"
                                                             : "failed";
    std::string phase = !step->begin  ? "ends"
                        : fault.lasts ? fmt::format("for {:g} s", seconds(*fault.lasts))
                                      : "now";
    std::string note =
        outcome.effect == Effect::done ? outcome.detail : fmt::format("{}: {}", effect, outcome.detail);
    std::string place = place_of(fault, plan_.shape());
    journal_.note(fmt::format("{} on {}, {}: {}", name_of(fault.kind), place, phase, note),
                  Event("fault")
                      .with("id", step->id)
                      .with("kind", name_of(fault.kind))
                      .with("place", place)
                      .with("phase", step->begin ? "begin" : "end")
                      .with("effect", effect)
                      .with("detail", outcome.detail)
                      .with("took_ms", seconds(journal_.elapsed() - began) * 1e3)
                      .with("for_s", fault.lasts ? seconds(*fault.lasts) : 0.0));
  }
}

void Job::reap() {
  for (Process& process : processes_) {
    if (process.pid <= 0) continue;
    if (std::optional<int> status = reap_child(process.pid)) {
      process.pid = -1;
      note_end(process, *status);
    }
  }
}

void Job::note_end(const Process& process, int status) {
  std::string how = status > 128
                        ? fmt::format("was ended by signal {} ({})", status - 128, strsignal(status - 128))
                        : fmt::format("ended with status {}", status);
  journal_.note(fmt::format("rank {} (host {}) {}", process.place.rank, process.place.host, how),
                Event("rank_end")
                    .with("of_rank", process.place.rank)
                    .with("host", process.place.host)
                    .with("status", status));
  if (status == 0 || result_) return;
  result_ = status;
  terminate_ = journal_.elapsed() + options_.grace;
  if (any_alive()) {
    fmt::print(stderr, "lab: rank {} was the first to fail; the others have {:g} s to end by themselves\n",
               process.place.rank, seconds(options_.grace));
  }
}

void Job::mind_deadlines(int stop_signal) {
  if (stop_signal != 0) {
    stop_all(128 + stop_signal,
             fmt::format("stopped by signal {} ({})", stop_signal, strsignal(stop_signal)));
  } else if (options_.timeout && journal_.elapsed() >= *options_.timeout && !result_) {
    stop_all(1, fmt::format("not done in {:g} s (--timeout)", seconds(*options_.timeout)));
  }
  Duration now = journal_.elapsed();
  if (terminate_ && now >= *terminate_) {
    terminate_.reset();
    kill_ = now + kTermGrace;
    signal_all(SIGTERM);
  }
  if (kill_ && now >= *kill_) {
    kill_.reset();
    signal_all(SIGKILL);
  }
}

void Job::stop_all(int result, const std::string& why) {
  fmt::print(stderr, "lab: {}; ending all ranks\n", why);
  if (!result_) result_ = result;
  terminate_ = journal_.elapsed();
}

void Job::signal_all(int number) {
  for (const Process& process : processes_) {
    if (process.pid > 0) kill(-process.pid, number);
  }
}

}  // namespace

int run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace megascale::lab
