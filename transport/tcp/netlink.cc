#include "transport/tcp/netlink.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <cstring>

namespace megascale::tcp {
namespace {

using News = Netlink::News;

const rtattr* find(const rtattr* a, std::size_t left, int type) {
  int n = static_cast<int>(left);
  for (; RTA_OK(a, n); a = RTA_NEXT(a, n))
    if (a->rta_type == type) return a;
  return nullptr;
}

void tell_link(const nlmsghdr* h, const std::function<void(const News&)>& tell) {
  if (h->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) return;
  auto* i = static_cast<const ifinfomsg*>(NLMSG_DATA(h));
  News n{News::What::interface_down, static_cast<unsigned>(i->ifi_index), {}, {}};
  if (h->nlmsg_type == RTM_NEWLINK && (i->ifi_flags & IFF_UP) && (i->ifi_flags & IFF_RUNNING))
    n.what = News::What::interface_up;
  if (auto* a = find(IFLA_RTA(i), IFLA_PAYLOAD(h), IFLA_IFNAME))
    n.interface.assign(static_cast<const char*>(RTA_DATA(a)),
                       strnlen(static_cast<const char*>(RTA_DATA(a)), RTA_PAYLOAD(a)));
  tell(n);
}

void tell_address(const nlmsghdr* h, const std::function<void(const News&)>& tell) {
  if (h->nlmsg_len < NLMSG_LENGTH(sizeof(ifaddrmsg))) return;
  auto* i = static_cast<const ifaddrmsg*>(NLMSG_DATA(h));
  auto* a = find(IFA_RTA(i), IFA_PAYLOAD(h), IFA_LOCAL);
  if (!a) a = find(IFA_RTA(i), IFA_PAYLOAD(h), IFA_ADDRESS);
  if (!a) return;
  News n{h->nlmsg_type == RTM_NEWADDR ? News::What::address_added : News::What::address_removed,
         i->ifa_index,
         {},
         {}};
  auto* bytes = static_cast<const uint8_t*>(RTA_DATA(a));
  if (i->ifa_family == AF_INET && RTA_PAYLOAD(a) >= 4) n.address = Address::v4(bytes, 0);
  else if (i->ifa_family == AF_INET6 && RTA_PAYLOAD(a) >= 16) n.address = Address::v6(bytes, 0);
  else return;
  tell(n);
}

}  // namespace

Netlink::Netlink() : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  sockaddr_nl a{};
  a.nl_family = AF_NETLINK;
  a.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (socket_ && bind(socket_.fd(), reinterpret_cast<sockaddr*>(&a), sizeof a)) socket_ = {};
}

bool Netlink::read(const std::function<void(const News&)>& tell) {
  alignas(nlmsghdr) char buffer[16384];
  for (int i = 0; i < 64; i++) {
    ssize_t got = recv(socket_.fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return errno == ENOBUFS;
    std::size_t left = static_cast<std::size_t>(got);
    for (auto* h = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_type == RTM_NEWLINK || h->nlmsg_type == RTM_DELLINK) tell_link(h, tell);
      if (h->nlmsg_type == RTM_NEWADDR || h->nlmsg_type == RTM_DELADDR) tell_address(h, tell);
    }
  }
  return false;
}

RailState state_of(const Rail& r) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first)) return RailState::up;
  RailState s = RailState::interface_gone;
  for (auto* i = first; i; i = i->ifa_next) {
    if (r.interface != i->ifa_name || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING)) continue;
    if (s == RailState::interface_gone) s = r.address.loopback() ? RailState::up : RailState::address_gone;
    if (i->ifa_addr && i->ifa_addr->sa_family == r.address.family() &&
        Address::from(i->ifa_addr).same_host(r.address))
      s = RailState::up;
  }
  freeifaddrs(first);
  return s;
}

}  // namespace megascale::tcp
