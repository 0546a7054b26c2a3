#include "transport/tcp/rail.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>

namespace megascale::tcp {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> r;
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t end = std::min(list.find(',', at), list.size());
    std::string word = list.substr(at, end - at);
    word.erase(0, word.find_first_not_of(" \t"));
    word.erase(word.find_last_not_of(" \t") + 1);
    if (!word.empty()) r.push_back(word);
    at = end + 1;
  }
  return r;
}

int prefix_of(const sockaddr* mask) {
  if (!mask) return 32;
  Address a = Address::from(mask);
  int n = 0;
  for (std::size_t i = 0; i < a.size(); i++) n += std::popcount(a.bytes()[i]);
  return n;
}

int megabits_of(const std::string& interface) {
  int speed = -1;
  if (FILE* f = std::fopen(("/sys/class/net/" + interface + "/speed").c_str(), "re")) {
    if (std::fscanf(f, "%d", &speed) != 1) speed = -1;
    std::fclose(f);
  }
  return speed > 0 ? speed : 10000;
}

std::string pci_path_of(const std::string& interface) {
  char real[PATH_MAX];
  std::string link = "/sys/class/net/" + interface + "/device";
  return realpath(link.c_str(), real) ? real : "";
}

// FNV-1a; any hash does, as long as every process of the host computes the same.
uint64_t hash(const std::string& s) {
  uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : s) h = (h ^ c) * 0x100000001b3;
  return h;
}

bool usually_unwanted(const ifaddrs& i) {
  static const char* const kBridges[] = {"docker", "virbr", "veth", "cni", "flannel"};
  if (i.ifa_flags & IFF_LOOPBACK) return true;
  return std::any_of(std::begin(kBridges), std::end(kBridges),
                     [&](const char* b) { return !std::strncmp(i.ifa_name, b, std::strlen(b)); });
}

bool family_chosen(const Settings& s, int family) {
  if (family != AF_INET && family != AF_INET6) return false;
  if (s.address_family == "AF_INET") return family == AF_INET;
  if (s.address_family == "AF_INET6") return family == AF_INET6;
  return true;
}

Rail rail_of(const ifaddrs& i) {
  Rail r;
  r.interface = r.name = i.ifa_name;
  r.ifindex = if_nametoindex(i.ifa_name);
  r.address = Address::from(i.ifa_addr);
  r.prefix = prefix_of(i.ifa_netmask);
  r.pci_path = pci_path_of(r.interface);
  r.megabits = megabits_of(r.interface);
  return r;
}

// An interface with several rails: each gets its address into its name; and its guid, for on loopback each
// pretends to be a port of its own.
void name_apart(std::vector<Rail>& rails) {
  std::map<std::string, int> uses;
  for (auto& r : rails) uses[r.interface]++;
  for (auto& r : rails) {
    if (uses[r.interface] > 1) r.name = r.interface + "/" + r.address.text();
    r.guid = hash(r.address.loopback() ? r.name : r.interface);
  }
}

struct Interfaces {
  ifaddrs* first = nullptr;
  Interfaces() {
    if (getifaddrs(&first)) first = nullptr;
  }
  ~Interfaces() {
    if (first) freeifaddrs(first);
  }
};

Result<std::vector<Rail>> by_address(const Settings& s, const ifaddrs* first) {
  std::vector<Rail> rails;
  for (const auto& text : split(s.rails)) {
    auto a = Address::parse(text);
    if (!a) return Error{Code::invalid_usage, "MEGASCALE_RAILS: \"" + text + "\" is not an IP address"};
    const ifaddrs* found = nullptr;
    for (auto* i = first; i; i = i->ifa_next) {
      if (!i->ifa_addr || i->ifa_addr->sa_family != a->family()) continue;
      Address have = Address::from(i->ifa_addr);
      // all of 127.0.0.0/8 is the loopback interface's
      if (have.same_host(*a) || (have.loopback() && a->loopback())) found = i;
      if (have.same_host(*a)) break;
    }
    if (!found)
      return Error{Code::invalid_usage, "MEGASCALE_RAILS: no interface of this host has the address " + text +
                                            "; see `ip address`"};
    for (const auto& r : rails)
      if (r.address.same_host(*a))
        return Error{Code::invalid_usage, "MEGASCALE_RAILS names " + text + " twice"};
    Rail r = rail_of(*found);
    r.address = *a;
    rails.push_back(r);
  }
  if (rails.empty())
    return Error{Code::invalid_usage, "MEGASCALE_RAILS is set, but names no address; see `ip address`"};
  return rails;
}

std::vector<Rail> by_interface(const Settings& s, const ifaddrs* first, bool unwanted_too) {
  std::vector<Rail> rails;
  for (auto* i = first; i; i = i->ifa_next) {
    if (!i->ifa_addr || !family_chosen(s, i->ifa_addr->sa_family) || !(i->ifa_flags & IFF_UP)) continue;
    if (s.interfaces.empty() ? !unwanted_too && usually_unwanted(*i)
                             : !interface_chosen(s.interfaces, i->ifa_name))
      continue;
    Address a = Address::from(i->ifa_addr);
    if (a.link_local()) continue;  // not routable, and needs a scope that the peer cannot know
    bool has_one =
        std::any_of(rails.begin(), rails.end(), [&](const Rail& r) { return r.interface == i->ifa_name; });
    if (!has_one) rails.push_back(rail_of(*i));
  }
  return rails;
}

}  // namespace

bool interface_chosen(const std::string& notation, const std::string& name) {
  bool exclude = !notation.empty() && notation[0] == '^';
  std::string list = notation.substr(exclude ? 1 : 0);
  bool exact = !list.empty() && list[0] == '=';
  bool found = false;
  for (const auto& word : split(list.substr(exact ? 1 : 0)))
    found |= exact ? name == word : name.rfind(word, 0) == 0;
  return found != exclude;
}

Result<std::vector<Rail>> find_rails(const Settings& s) {
  Interfaces interfaces;
  if (!interfaces.first)
    return Error{Code::system, std::string("cannot list the interfaces of this host: ") + strerror(errno)};
  if (!s.rails.empty()) {
    auto rails = by_address(s, interfaces.first);
    if (rails) name_apart(*rails);
    return rails;
  }
  auto rails = by_interface(s, interfaces.first, false);
  if (rails.empty() && s.interfaces.empty()) rails = by_interface(s, interfaces.first, true);
  if (rails.empty())
    return Error{Code::invalid_usage, "no interface with a usable IP address" +
                                          (s.interfaces.empty() ? "" : " matches \"" + s.interfaces + "\"") +
                                          "; see `ip address` and NCCL_SOCKET_IFNAME or MEGASCALE_RAILS"};
  name_apart(rails);
  return rails;
}

}  // namespace megascale::tcp
