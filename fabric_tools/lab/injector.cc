#include "fabric_tools/lab/injector.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <set>

#include "fabric_tools/lab/process.h"

namespace megascale::lab {
namespace {

// Acts on each host and rail of the fault; an error on one does not spare the others.
template <typename Action>
Outcome on_each(const Fault& fault, const std::string& done, Action action) {
  Outcome outcome{Effect::done, done};
  for (int host : fault.hosts) {
    for (int rail : fault.rails) {
      try {
        action(host, rail);
      } catch (const std::exception& error) {
        outcome = {Effect::failed, error.what()};
      }
    }
  }
  return outcome;
}

std::string listed(const char* what, const std::vector<int>& these, int all) {
  if (static_cast<int>(these.size()) == all && all > 1) return fmt::format("all {}s", what);
  std::string numbers;
  for (int number : these) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", number);
  return fmt::format("{}{} {}", what, these.size() > 1 ? "s" : "", numbers);
}

}  // namespace

std::string place_of(const Fault& fault, const Shape& shape) {
  if (fault.kind == FaultKind::sigkill) return fmt::format("rank {}", fault.rank);
  std::string hosts = listed("host", fault.hosts, shape.hosts);
  if (fault.kind == FaultKind::blackhole_host) return hosts;
  return hosts + ", " + listed("rail", fault.rails, shape.rails);
}

Outcome Injector::begin(int id, const Fault& fault) {
  if (fault.kind == FaultKind::sigkill) return kill_rank(fault);
  if (fault.kind == FaultKind::kill) return kill_connections(fault);
  if (plan_.kind() == Kind::loopback) {
    return {Effect::skipped, "rails that are loopback addresses have no cable to break"};
  }
  if (fault.kind == FaultKind::down) return down(fault, true);
  if (fault.kind == FaultKind::address) return address(fault, true);
  return drop(id, fault, true);
}

Outcome Injector::end(int id, const Fault& fault) {
  if (plan_.kind() == Kind::loopback) return {Effect::skipped, "had not begun"};
  if (fault.kind == FaultKind::down) return down(fault, false);
  if (fault.kind == FaultKind::address) return address(fault, false);
  return drop(id, fault, false);
}

// What arrives is dropped before IP or ARP sees it, at both ends of the cable. (Dropped on its way out, the
// sending kernel would notice.)
Outcome Injector::drop(int id, const Fault& fault, bool begin) {
  std::map<std::string, std::set<std::string>> ends;
  for (int host : fault.hosts) {
    for (int rail : fault.rails) {
      for (const auto& [space, interface] : plan_.cable_ends(host, rail)) ends[space].insert(interface);
    }
  }
  Outcome outcome{Effect::done, begin ? "everything on the cable is dropped" : "packets pass again"};
  for (const auto& [space, interfaces] : ends) {
    std::string script = fmt::format("delete table netdev megascale{}\n", id);
    if (begin) {
      script = fmt::format("table netdev megascale{} {{\n", id);
      for (const std::string& interface : interfaces) {
        script += fmt::format(
            "  chain {0} {{\n    type filter hook ingress device {0} priority 0; policy drop;\n  }}\n",
            interface);
      }
      script += "}\n";
    }
    try {
      must_run({"ip", "netns", "exec", space, find_program("nft"), "-f", "-"}, script);
    } catch (const std::exception& error) {
      outcome = {Effect::failed, error.what()};
    }
  }
  return outcome;
}

bool Injector::first_or_last(const Fault& fault, int host, int rail, bool begin) {
  int& count = active_[{fault.kind, host, rail}];
  return begin ? count++ == 0 : --count == 0;
}

Outcome Injector::down(const Fault& fault, bool begin) {
  return on_each(fault, begin ? "interface taken down" : "interface up again", [&](int host, int rail) {
    if (!first_or_last(fault, host, rail, begin)) return;
    must_run({"ip", "-n", plan_.host_namespace(host), "link", "set", plan_.interface(rail),
              begin ? "down" : "up"});
  });
}

Outcome Injector::address(const Fault& fault, bool begin) {
  return on_each(fault, begin ? "address removed" : "address back", [&](int host, int rail) {
    if (!first_or_last(fault, host, rail, begin)) return;
    must_run({"ip", "-n", plan_.host_namespace(host), "addr", begin ? "del" : "add",
              fmt::format("{}/{}", plan_.address(host, rail), Plan::prefix_length()), "dev",
              plan_.interface(rail)});
  });
}

// All rails of a host at once: one after another, a connection would be killed again where it fled to.
Outcome Injector::kill_connections(const Fault& fault) {
  if (geteuid() != 0) return {Effect::skipped, "`ss -K` needs root"};
  const bool one_host = plan_.kind() == Kind::loopback;  // all hosts are one
  long killed = 0;
  Outcome outcome{Effect::done, ""};
  for (int host : fault.hosts) {
    if (one_host && host != fault.hosts.front()) break;
    Argv argv{find_program("ss"), "-HKtn", "state", "established", "("};
    if (!one_host) argv.insert(argv.begin(), {"ip", "netns", "exec", plan_.host_namespace(host)});
    for (int rail : fault.rails) {
      if (rail != fault.rails.front()) argv.push_back("or");
      argv.insert(argv.end(), {"src", plan_.address(host, rail)});
    }
    argv.push_back(")");
    try {
      std::string sockets = must_run(argv);
      killed += std::count(sockets.begin(), sockets.end(), '\n');
    } catch (const std::exception& error) {
      outcome = {Effect::failed, error.what()};
    }
  }
  if (outcome.effect == Effect::done) outcome.detail = fmt::format("{} connection ends destroyed", killed);
  return outcome;
}

Outcome Injector::kill_rank(const Fault& fault) {
  pid_t pid = pid_of_rank_(fault.rank);
  if (pid <= 0) return {Effect::skipped, "it had ended"};
  if (kill(pid, SIGKILL) != 0) return {Effect::failed, strerror(errno)};
  return {Effect::done, fmt::format("killed, process {}", pid)};
}

}  // namespace megascale::lab
