#include "fabric_tools/lab/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace megascale::lab {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr size_t kMaxOutput = 1 << 20;

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw std::runtime_error(fmt::format("cannot make a pipe: {}", strerror(errno)));
    read_end = ends[0], write_end = ends[1];
  }
  ~Pipe() { close_read(), close_write(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() { close_one(read_end); }
  void close_write() { close_one(write_end); }

 private:
  static void close_one(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
};

std::vector<char*> pointers(const Argv& argv) {
  std::vector<char*> result;
  for (const std::string& word : argv) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// What every child needs between fork and exec: signals as a fresh process has them.
void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) signal(number, SIG_DFL);
}

[[noreturn]] void exec_or_explain(const std::string& program, char* const* argv) {
  execv(program.c_str(), argv);
  const char* reason = strerror(errno);
  for (const char* part : {"cannot start ", static_cast<const char*>(argv[0]), ": ", reason, "\n"}) {
    if (write(STDERR_FILENO, part, strlen(part)) < 0) break;
  }
  _exit(127);
}

int status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 127;
  }
  return status_of(status);
}

int milliseconds_until(SteadyClock::time_point end) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, left));
}

// Feeds the child's standard input and gathers what it says until it closes its output; false at the
// deadline.
bool converse(Pipe& to_child, Pipe& from_child, std::string_view input, SteadyClock::time_point end,
              std::string& output) {
  fcntl(to_child.write_end, F_SETFL, O_NONBLOCK);
  char buffer[4096];
  for (;;) {
    if (input.empty()) to_child.close_write();
    pollfd waits[2] = {{from_child.read_end, POLLIN, 0}, {to_child.write_end, POLLOUT, 0}};
    int left = milliseconds_until(end);
    if (left == 0) return false;
    if (poll(waits, input.empty() ? 1 : 2, left) < 0 && errno != EINTR) return false;
    if (!input.empty() && waits[1].revents != 0) {
      ssize_t n = write(to_child.write_end, input.data(), input.size());
      if (n < 0 && errno != EAGAIN && errno != EINTR) input = {};
      if (n > 0) input.remove_prefix(static_cast<size_t>(n));
    }
    if (waits[0].revents != 0) {
      ssize_t n = read(from_child.read_end, buffer, sizeof buffer);
      if (n == 0) return true;
      if (n < 0 && errno != EINTR && errno != EAGAIN) return true;
      if (n > 0 && output.size() < kMaxOutput) output.append(buffer, static_cast<size_t>(n));
    }
  }
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : std::string();
  const char* path = getenv("PATH");
  std::string folders = std::string(path ? path : "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin";
  for (size_t begin = 0; begin <= folders.size();) {
    size_t end = std::min(folders.find(':', begin), folders.size());
    std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return {};
}

std::string quoted(const Argv& argv) {
  std::string line;
  for (const std::string& word : argv) {
    bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>(){}*?#") == std::string::npos;
    line += (line.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
  }
  return line;
}

CommandResult run_command(const Argv& argv, std::string_view input, Duration deadline) {
  CommandResult result;
  std::string program = find_program(argv.at(0));
  if (program.empty()) return {127, false, argv[0] + ": no such program"};
  Pipe to_child, from_child;
  std::vector<char*> arguments = pointers(argv);
  // A child that leaves its input unread must not end us.
  static const bool pipes_ignored = signal(SIGPIPE, SIG_IGN) != SIG_ERR;
  (void)pipes_ignored;
  pid_t child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("cannot start {}: fork: {}", argv[0], strerror(errno)));
  if (child == 0) {
    reset_signals();
    dup2(to_child.read_end, STDIN_FILENO);
    dup2(from_child.write_end, STDOUT_FILENO);
    dup2(from_child.write_end, STDERR_FILENO);
    exec_or_explain(program, arguments.data());
  }
  to_child.close_read();
  from_child.close_write();
  if (!converse(to_child, from_child, input, SteadyClock::now() + deadline, result.output)) {
    result.timed_out = true;
    kill(child, SIGKILL);
  }
  result.status = wait_for(child);
  return result;
}

std::string must_run(const Argv& argv, std::string_view input) {
  CommandResult result = run_command(argv, input);
  if (result.ok()) return result.output;
  std::string why = result.timed_out ? "no answer in 10 s" : fmt::format("status {}", result.status);
  while (!result.output.empty() && result.output.back() == '\n') result.output.pop_back();
  throw std::runtime_error(fmt::format("`{}` failed ({}): {}", quoted(argv), why, result.output));
}

pid_t start_child(const ChildOptions& options) {
  std::string program = find_program(options.argv.at(0));
  if (program.empty()) {
    throw std::runtime_error(fmt::format(
        "cannot start `{}`: no such program (looked in PATH, cwd for names with '/')", options.argv[0]));
  }
  int null_input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int output = -1;
  if (!options.output_file.empty()) {
    output = open(options.output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (output < 0) {
      int reason = errno;
      if (null_input >= 0) close(null_input);
      throw std::runtime_error(fmt::format("cannot write {}: {}", options.output_file, strerror(reason)));
    }
  }
  std::vector<char*> arguments = pointers(options.argv);
  pid_t parent = getpid();
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    reset_signals();
    if (null_input >= 0) dup2(null_input, STDIN_FILENO);
    if (output >= 0) dup2(output, STDOUT_FILENO), dup2(output, STDERR_FILENO);
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    exec_or_explain(program, arguments.data());
  }
  int reason = errno;
  if (null_input >= 0) close(null_input);
  if (output >= 0) close(output);
  if (child < 0)
    throw std::runtime_error(fmt::format("cannot start {}: fork: {}", options.argv[0], strerror(reason)));
  setpgid(child, child);  // either of us is first; after exec this fails harmlessly
  return child;
}

std::optional<int> reap_child(pid_t child) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != child) {
    return std::nullopt;
  }
  kill(-child, SIGKILL);
  return wait_for(child);
}

}  // namespace megascale::lab
