#include "plugin/host/launch.h"

#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>

#include "plugin/host/secret.h"

namespace megascale::host {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

volatile sig_atomic_t received = 0;
void note(int signal) { received = signal; }

// Notes the signals that are to be passed on, for as long as it lives.
class Forwarding {
 public:
  Forwarding() {
    received = 0;
    struct sigaction action {};
    action.sa_handler = note;
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Forwarding() {
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)];
};

std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length < 0)
    throw std::runtime_error(std::string("/proc/self/exe cannot be read: ") + std::strerror(errno));
  return std::string(path, static_cast<size_t>(length));
}

bool names(const std::string& entry, const std::string& name) {
  return entry.compare(0, name.size() + 1, name + "=") == 0;
}

// This process's environment with some variables replaced.
std::vector<std::string> environment_with(const std::vector<std::string>& additions) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const std::string& addition : additions)
      replaced |= names(text, addition.substr(0, addition.find('=')));
    if (!replaced) result.push_back(text);
  }
  result.insert(result.end(), additions.begin(), additions.end());
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Between fork and exec only async-signal-safe calls are allowed: everything is prepared before.
pid_t start(const LocalLaunch& launch, const std::string& program, int rank, const std::string& rendezvous) {
  std::vector<std::string> additions = launch.environment;
  additions.push_back("MEGASCALE_RANK=" + std::to_string(rank));
  additions.push_back("MEGASCALE_RANKS=" + std::to_string(launch.ranks));
  additions.push_back("MEGASCALE_LOCAL_RANK=" + std::to_string(rank));
  additions.push_back("MEGASCALE_RENDEZVOUS=" + rendezvous);
  std::vector<std::string> environment = environment_with(additions);
  std::vector<std::string> arguments{program};
  arguments.insert(arguments.end(), launch.arguments.begin(), launch.arguments.end());
  const auto argv = pointers(arguments), envp = pointers(environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  execve(program.c_str(), argv.data(), envp.data());
  _exit(127);
}

struct Child {
  int rank;
  pid_t pid;
};

void signal_all(const std::vector<Child>& children, int signal) {
  for (const Child& child : children) kill(child.pid, signal);
}

void note_failure(LaunchResult& result, int rank, pid_t pid, int status) {
  const std::string who = "rank " + std::to_string(rank) + " (process " + std::to_string(pid) + ")";
  if (WIFSIGNALED(status)) {
    result.exit_code = 128 + WTERMSIG(status);
    result.failure = who + " was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
                     strsignal(WTERMSIG(status)) + ")";
  } else {
    result.exit_code = WEXITSTATUS(status);
    result.failure = who + " ended with exit code " + std::to_string(WEXITSTATUS(status));
  }
}

// Reaps until none is left. After the first failure the others have the grace to end by themselves. The
// failure told is the first one, but one that somebody else's signal killed comes before those that gave up
// on its account and were seen to end earlier.
LaunchResult reap(std::vector<Child> children, std::chrono::seconds grace) {
  LaunchResult result;
  Clock::time_point deadline = Clock::time_point::max();
  int harshness = 0;
  bool untouched = true;  // no signal of ours was sent
  while (!children.empty()) {
    if (const int signal = received; signal != 0) {
      received = 0;
      untouched = false;
      signal_all(children, signal);
      if (result.exit_code == 0)
        result = {128 + signal, std::string("this process was asked to end: ") + strsignal(signal)};
      deadline = std::min(deadline, Clock::now() + grace);
    }
    bool any = false;
    for (auto child = children.begin(); child != children.end();) {
      int status = 0;
      const pid_t ended = waitpid(child->pid, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) {
        ++child;
        continue;
      }
      const bool well = ended == child->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      const bool killed = WIFSIGNALED(status) && untouched;
      if (!well && (result.exit_code == 0 || (killed && result.exit_code < 128))) {
        if (result.exit_code == 0) deadline = Clock::now() + grace;
        note_failure(result, child->rank, child->pid, status);
      }
      child = children.erase(child);
      any = true;
    }
    if (Clock::now() > deadline) {
      untouched = false;
      signal_all(children, harshness++ == 0 ? SIGTERM : SIGKILL);
      deadline = Clock::now() + 2s;
    }
    if (!any && !children.empty()) std::this_thread::sleep_for(2ms);
  }
  return result;
}

// The kernel's range for outgoing connections; a port inside may be taken by one at any moment.
std::pair<int, int> ephemeral_range() {
  int low = 32768, high = 60999;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  return {low, high};
}

// A bound socket that does not listen: nobody else is given the port, while rank 0, which also says
// SO_REUSEADDR, can bind it and listen.
class Reservation {
 public:
  Reservation() {
    std::random_device seed;
    std::mt19937 random(seed());
    std::uniform_int_distribution<int> ports(15'000, 31'000);
    const auto [low, high] = ephemeral_range();
    for (int attempt = 0; attempt < 200; ++attempt) {
      const int port = ports(random);
      if (port >= low && port <= high && attempt < 100) continue;
      if (try_port(static_cast<uint16_t>(port))) return;
    }
    throw std::runtime_error("no free TCP port was found on 127.0.0.1 for the rendezvous; give one");
  }
  ~Reservation() {
    if (fd_ >= 0) close(fd_);
  }
  Reservation(const Reservation&) = delete;
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  bool try_port(uint16_t port) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return false;
    const int one = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    // Without SO_REUSEADDR at first, so that a port which somebody else reserves in this way is refused.
    const bool taken = bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!taken) {
      close(fd_);
      fd_ = -1;
      return false;
    }
    port_ = port;
    return true;
  }

  int fd_ = -1;
  uint16_t port_ = 0;
};

}  // namespace

std::string free_rendezvous() { return Reservation().address(); }

LaunchResult local_ranks(const LocalLaunch& launch) {
  if (launch.ranks < 1) throw std::invalid_argument("there must be at least one rank");
  ensure_job_secret();
  const Reservation reservation;
  const std::string rendezvous = launch.rendezvous.empty() ? reservation.address() : launch.rendezvous;
  const std::string program = launch.program.empty() ? own_path() : launch.program;
  const Forwarding forwarding;
  std::vector<Child> children;
  for (int rank = 0; rank < launch.ranks; ++rank) {
    const pid_t pid = start(launch, program, rank, rendezvous);
    if (pid < 0) {
      const int error = errno;
      signal_all(children, SIGKILL);
      reap(std::move(children), 0s);
      throw std::runtime_error("rank " + std::to_string(rank) + " cannot be started as " + program + ": " +
                               std::strerror(error));
    }
    children.push_back({rank, pid});
  }
  return reap(std::move(children), launch.grace);
}

}  // namespace megascale::host
