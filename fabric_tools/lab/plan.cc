#include "fabric_tools/lab/plan.h"

#include <fmt/format.h>

#include <stdexcept>

namespace megascale::lab {
namespace {

void check_range(const char* what, int value, int most) {
  if (value < 1 || value > most) {
    throw std::invalid_argument(fmt::format("{} {} {}: a pretended fabric has 1 to {}", value, what,
                                            value < 1 ? "are too few" : "are too many", most));
  }
}

}  // namespace

Plan::Plan(Shape shape, Kind kind, int id, std::string rendezvous)
    : shape_(shape),
      kind_(kind),
      prefix_(fmt::format("{}{}-", kNamespacePrefix, id)),
      rendezvous_(std::move(rendezvous)) {
  if (rendezvous_.empty()) rendezvous_ = fmt::format("{}:29500", address(0, 0));
  check_range("hosts", shape.hosts, 200);
  check_range("rails", shape.rails, 16);
  check_range("ranks", shape.ranks, 1024);
  std::vector<int> population(static_cast<size_t>(shape.hosts), 0);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    int host = rank * shape.hosts / shape.ranks;
    ranks_.push_back({rank, host, population[static_cast<size_t>(host)]++});
  }
}

std::string Plan::host_namespace(int host) const { return fmt::format("{}host{}", prefix_, host); }
std::string Plan::switch_namespace() const { return prefix_ + "switches"; }
std::string Plan::switch_port(int host, int rail) const { return fmt::format("h{}r{}", host, rail); }

std::vector<std::string> Plan::namespaces() const {
  std::vector<std::string> names;
  if (kind_ == Kind::loopback) return names;
  for (int host = 0; host < shape_.hosts; ++host) names.push_back(host_namespace(host));
  if (has_switches()) names.push_back(switch_namespace());
  return names;
}

std::string Plan::interface(int rail) const {
  return kind_ == Kind::loopback ? std::string("lo") : fmt::format("rail{}", rail);
}

std::string Plan::address(int host, int rail) const {
  return kind_ == Kind::loopback ? fmt::format("127.0.0.{}", rail + 1)
                                 : fmt::format("10.{}.0.{}", rail + 1, host + 1);
}

std::vector<std::pair<std::string, std::string>> Plan::cable_ends(int host, int rail) const {
  if (kind_ == Kind::loopback) return {};
  std::pair<std::string, std::string> near{host_namespace(host), interface(rail)};
  if (has_switches()) return {near, {switch_namespace(), switch_port(host, rail)}};
  return {near, {host_namespace(1 - host), interface(rail)}};
}

std::vector<std::pair<std::string, std::string>> Plan::environment(const Rank& rank) const {
  std::string rails;
  for (int rail = 0; rail < shape_.rails; ++rail) {
    if (rail > 0) rails += ',';
    rails += address(rank.host, rail);
  }
  return {{"MEGASCALE_RANK", std::to_string(rank.rank)},
          {"MEGASCALE_RANKS", std::to_string(shape_.ranks)},
          {"MEGASCALE_LOCAL_RANK", std::to_string(rank.local_rank)},
          {"MEGASCALE_RENDEZVOUS", rendezvous_},
          {"MEGASCALE_RAILS", rails},
          {"NCCL_SOCKET_IFNAME", kind_ == Kind::loopback ? "lo" : "rail"}};
}

}  // namespace megascale::lab
