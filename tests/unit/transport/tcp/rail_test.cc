#include "transport/tcp/rail.h"

#include <gtest/gtest.h>

#include <set>

namespace megascale::tcp {
namespace {

TEST(InterfaceChosen, ByPrefix) {
  EXPECT_TRUE(interface_chosen("eth,ib0", "eth0"));
  EXPECT_TRUE(interface_chosen("eth,ib0", "eth12"));
  EXPECT_TRUE(interface_chosen("eth, ib0", "ib0"));
  EXPECT_FALSE(interface_chosen("eth,ib0", "ib1"));
  EXPECT_FALSE(interface_chosen("eth,ib0", "lo"));
}

TEST(InterfaceChosen, ExactlyWithAnEqualsSign) {
  EXPECT_TRUE(interface_chosen("=eth1,eth2", "eth1"));
  EXPECT_TRUE(interface_chosen("=eth1,eth2", "eth2"));
  EXPECT_FALSE(interface_chosen("=eth1,eth2", "eth10"));
}

TEST(InterfaceChosen, AllButWithACaret) {
  EXPECT_FALSE(interface_chosen("^docker,lo", "docker0"));
  EXPECT_FALSE(interface_chosen("^docker,lo", "lo"));
  EXPECT_TRUE(interface_chosen("^docker,lo", "eth0"));
  EXPECT_FALSE(interface_chosen("^=eth1", "eth1"));
  EXPECT_TRUE(interface_chosen("^=eth1", "eth10"));
}

Settings with_rails(const std::string& rails) {
  Settings s;
  s.rails = rails;
  return s;
}

TEST(FindRails, AddressesGiveRailsInTheirOrder) {
  auto rails = find_rails(with_rails("127.0.0.3, 127.0.0.1,127.0.0.2"));
  ASSERT_TRUE(rails) << rails.error().message;
  ASSERT_EQ(rails->size(), 3u);
  EXPECT_EQ((*rails)[0].address.text(), "127.0.0.3");
  EXPECT_EQ((*rails)[1].address.text(), "127.0.0.1");
  EXPECT_EQ((*rails)[2].address.text(), "127.0.0.2");
  std::set<std::string> names;
  std::set<uint64_t> guids;
  for (auto& r : *rails) {
    EXPECT_EQ(r.interface, "lo");
    EXPECT_GT(r.megabits, 0);
    EXPECT_GT(r.ifindex, 0u);
    names.insert(r.name);
    guids.insert(r.guid);
  }
  EXPECT_EQ(names.size(), 3u) << "NCCL tells devices apart by their names";
  EXPECT_EQ(guids.size(), 3u) << "or it would count the bandwidth of one only";
}

TEST(FindRails, IsTheSameInEveryProcessOfAHost) {
  auto a = find_rails(with_rails("127.0.0.1,127.0.0.2")), b = find_rails(with_rails("127.0.0.1,127.0.0.2"));
  ASSERT_TRUE(a && b);
  for (std::size_t i = 0; i < 2; i++) {
    EXPECT_EQ((*a)[i].name, (*b)[i].name);
    EXPECT_EQ((*a)[i].guid, (*b)[i].guid);
  }
}

TEST(FindRails, AnAddressThatIsNotOursIsNamed) {
  auto rails = find_rails(with_rails("127.0.0.1,203.0.113.77"));
  ASSERT_FALSE(rails);
  EXPECT_EQ(rails.error().code, Code::invalid_usage);
  EXPECT_NE(rails.error().message.find("203.0.113.77"), std::string::npos) << rails.error().message;
  EXPECT_NE(rails.error().message.find("MEGASCALE_RAILS"), std::string::npos);
}

TEST(FindRails, WhatIsNoAddressIsNamed) {
  for (const char* wrong : {"eth0", "127.0.0.1,elephant", "127.0.0.1/8", "1.2.3.4.5"}) {
    auto rails = find_rails(with_rails(wrong));
    ASSERT_FALSE(rails) << wrong;
    EXPECT_EQ(rails.error().code, Code::invalid_usage);
    EXPECT_NE(rails.error().message.find("is not an IP address"), std::string::npos) << rails.error().message;
  }
}

TEST(FindRails, AListOfNothingIsAnErrorAndNotNoRails) {
  for (const char* empty : {",", " ", " , ,"}) {
    auto rails = find_rails(with_rails(empty));
    ASSERT_FALSE(rails) << "'" << empty << "'";
    EXPECT_EQ(rails.error().code, Code::invalid_usage);
  }
}

TEST(FindRails, OneAddressTwiceIsAnError) {
  auto rails = find_rails(with_rails("127.0.0.1,127.0.0.2,127.0.0.1"));
  ASSERT_FALSE(rails) << "two rails of one name";
  EXPECT_NE(rails.error().message.find("127.0.0.1"), std::string::npos) << rails.error().message;
}

TEST(FindRails, ByInterfaceNotation) {
  Settings s;
  s.interfaces = "=lo";
  s.address_family = "AF_INET";
  auto rails = find_rails(s);
  ASSERT_TRUE(rails) << rails.error().message;
  ASSERT_EQ(rails->size(), 1u);
  EXPECT_EQ((*rails)[0].name, "lo");
  EXPECT_EQ((*rails)[0].address.text(), "127.0.0.1");
}

TEST(FindRails, AnInterfaceThatIsNotThereIsNamed) {
  Settings s;
  s.interfaces = "=there-is-none";
  auto rails = find_rails(s);
  ASSERT_FALSE(rails);
  EXPECT_EQ(rails.error().code, Code::invalid_usage);
  EXPECT_NE(rails.error().message.find("there-is-none"), std::string::npos);
  EXPECT_NE(rails.error().message.find("NCCL_SOCKET_IFNAME"), std::string::npos);
}

TEST(FindRails, WithoutAnyWishThereIsAlwaysOne) {
  auto rails = find_rails({});
  ASSERT_TRUE(rails) << rails.error().message;  // loopback, if there is nothing else
  std::set<std::string> names;
  for (auto& r : *rails) names.insert(r.name);
  EXPECT_EQ(names.size(), rails->size());
}

}  // namespace
}  // namespace megascale::tcp
