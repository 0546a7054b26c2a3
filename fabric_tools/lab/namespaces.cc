#include "fabric_tools/lab/namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "fabric_tools/lab/process.h"

namespace megascale::lab {
namespace {

constexpr const char* kFolder = "/run/netns";  // where `ip netns` keeps them

// Everything in one host: `ip -batch` takes the lines at once, which matters with hundreds of hosts.
std::string host_script(const Plan& plan, int host) {
  std::string script = "link set lo up\n";
  for (int rail = 0; rail < plan.shape().rails; ++rail) {
    std::string name = plan.interface(rail);
    // No IPv6 on rails: duplicate address detection would only delay the start.
    script += fmt::format("link set {} addrgenmode none\n", name);
    script += fmt::format("addr add {}/{} dev {}\n", plan.address(host, rail), Plan::prefix_length(), name);
    script += fmt::format("link set {} up\n", name);
  }
  return script;
}

std::string cables_of_two_hosts(const Plan& plan) {
  std::string script;
  for (int rail = 0; rail < plan.shape().rails; ++rail) {
    script += fmt::format("link add {0} netns {1} type veth peer name {0} netns {2}\n", plan.interface(rail),
                          plan.host_namespace(0), plan.host_namespace(1));
  }
  return script;
}

std::string cables_to_switches(const Plan& plan) {
  std::string script;
  for (int rail = 0; rail < plan.shape().rails; ++rail) {
    for (int host = 0; host < plan.shape().hosts; ++host) {
      script += fmt::format("link add {} netns {} type veth peer name {} netns {}\n", plan.interface(rail),
                            plan.host_namespace(host), plan.switch_port(host, rail), plan.switch_namespace());
    }
  }
  return script;
}

std::string switch_script(const Plan& plan) {
  std::string script = "link set lo up\n";
  for (int rail = 0; rail < plan.shape().rails; ++rail) {
    script += fmt::format(
        "link add switch{0} type bridge\nlink set switch{0} addrgenmode none\nlink set switch{0} up\n", rail);
    for (int host = 0; host < plan.shape().hosts; ++host) {
      std::string port = plan.switch_port(host, rail);
      script += fmt::format("link set {0} addrgenmode none\nlink set {0} master switch{1}\nlink set {0} up\n",
                            port, rail);
    }
  }
  return script;
}

// The kernel tells user space that a carrier is there up to a second after it is. Whoever starts before that
// sees rails that are down.
void await_carriers(const Plan& plan) {
  for (int host = 0; host < plan.shape().hosts; ++host) {
    for (int attempt = 0; attempt < 300; ++attempt) {
      std::string links =
          must_run({"ip", "-n", plan.host_namespace(host), "-brief", "link", "show", "type", "veth"});
      if (links.find(" DOWN ") == std::string::npos && links.find("LOWERLAYERDOWN") == std::string::npos)
        break;
      usleep(10'000);
    }
  }
}

}  // namespace

std::string why_no_namespaces() {
  if (geteuid() != 0) return "network namespaces need root (run as root or with sudo)";
  for (const auto& [program, package] :
       {std::pair{"ip", "iproute2"}, {"ss", "iproute2"}, {"nft", "nftables"}}) {
    if (find_program(program).empty()) {
      return fmt::format("`{}` is not installed (apt-get install {})", program, package);
    }
  }
  std::string name = fmt::format("{}{}-probe", kNamespacePrefix, getpid());
  CommandResult made = run_command({"ip", "netns", "add", name});
  CommandResult cable =
      made.ok()
          ? run_command({"ip", "-n", name, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"})
          : made;
  if (made.ok()) run_command({"ip", "netns", "del", name});
  if (cable.ok()) return {};
  return fmt::format("this kernel or container allows no network namespaces with veth: {}", cable.output);
}

std::vector<std::string> remove_namespaces(const std::vector<std::string>& names) {
  std::vector<std::string> complaints;
  for (const std::string& name : names) {
    if (access(fmt::format("{}/{}", kFolder, name).c_str(), F_OK) != 0) continue;
    // What left its rank's process group may still live here and would keep the namespace alive.
    std::istringstream pids(run_command({"ip", "netns", "pids", name}).output);
    for (pid_t pid = 0; pids >> pid;) {
      if (pid > 1) kill(pid, SIGKILL);
    }
    CommandResult result = run_command({"ip", "netns", "del", name});
    if (!result.ok())
      complaints.push_back(fmt::format("cannot delete network namespace {}: {}", name, result.output));
  }
  return complaints;
}

std::vector<std::string> abandoned_namespaces() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, none)) {
    std::string name = entry.path().filename();
    if (!name.starts_with(kNamespacePrefix)) continue;
    char* end = nullptr;
    long pid = strtol(name.c_str() + strlen(kNamespacePrefix), &end, 10);
    if (pid <= 1 || *end != '-') continue;
    if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) names.push_back(name);
  }
  return names;
}

Namespaces::Namespaces(const Plan& plan) : names_(plan.namespaces()) {
  start_watcher();
  try {
    build(plan);
  } catch (...) {
    remove_namespaces(names_);
    dismiss_watcher();
    throw;
  }
}

Namespaces::~Namespaces() {
  if (!kept_) {
    for (const std::string& complaint : remove_namespaces(names_)) fmt::print(stderr, "lab: {}\n", complaint);
  }
  dismiss_watcher();
}

void Namespaces::build(const Plan& plan) {
  for (const std::string& name : names_) must_run({"ip", "netns", "add", name});
  must_run({"ip", "-batch", "-"}, plan.has_switches() ? cables_to_switches(plan) : cables_of_two_hosts(plan));
  if (plan.has_switches())
    must_run({"ip", "-n", plan.switch_namespace(), "-batch", "-"}, switch_script(plan));
  for (int host = 0; host < plan.shape().hosts; ++host) {
    must_run({"ip", "-n", plan.host_namespace(host), "-batch", "-"}, host_script(plan, host));
  }
  await_carriers(plan);
}

void Namespaces::start_watcher() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("cannot make a pipe: {}", strerror(errno)));
  watcher_ = fork();
  if (watcher_ < 0) {
    close(ends[0]), close(ends[1]);
    throw std::runtime_error(
        fmt::format("cannot start the watcher of namespaces: fork: {}", strerror(errno)));
  }
  if (watcher_ > 0) {
    close(ends[0]);
    lifeline_ = ends[1];
    return;
  }
  setsid();  // a signal to our terminal or group must not reach it
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(number, SIG_IGN);
  close(ends[1]);
  char word = 0;
  ssize_t n = 0;
  while ((n = read(ends[0], &word, 1)) < 0 && errno == EINTR) {
  }
  if (n == 0) remove_namespaces(names_);
  _exit(0);
}

void Namespaces::dismiss_watcher() {
  if (watcher_ < 0) return;
  if (write(lifeline_, "d", 1) != 1) kill(watcher_, SIGKILL);
  close(lifeline_);
  while (waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) {
  }
  watcher_ = -1;
}

}  // namespace megascale::lab
