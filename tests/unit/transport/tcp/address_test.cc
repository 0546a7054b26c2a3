#include "transport/tcp/address.h"

#include <gtest/gtest.h>

namespace megascale::tcp {
namespace {

TEST(Address, ReadsAndWritesBothFamilies) {
  for (const char* text : {"10.0.0.1", "255.255.255.255", "0.0.0.0", "fd00::1", "::", "2001:db8::ffff:1"}) {
    auto a = Address::parse(text);
    ASSERT_TRUE(a) << text;
    EXPECT_EQ(a->text(), text);
    EXPECT_EQ(a->port(), 0);
  }
}

TEST(Address, RefusesWhatIsNone) {
  for (const char* text :
       {"", "10.0.0", "10.0.0.256", "10.0.0.1/24", "host", "fe80::1%lo", ":::", " 10.0.0.1", "10.0.0.1:80"})
    EXPECT_FALSE(Address::parse(text)) << text;
}

TEST(Address, PortsAreWrittenAsPeopleWriteThem) {
  auto four = *Address::parse("10.0.0.1"), six = *Address::parse("fd00::1");
  four.set_port(4711);
  six.set_port(65535);
  EXPECT_EQ(four.text_with_port(), "10.0.0.1:4711");
  EXPECT_EQ(six.text_with_port(), "[fd00::1]:65535");
  EXPECT_TRUE(four.same_host(*Address::parse("10.0.0.1")));
  EXPECT_FALSE(four.same_host(six));
}

TEST(Address, MappedIpv4IsIpv4) {
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = htons(99);
  const uint8_t bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
  std::copy(std::begin(bytes), std::end(bytes), mapped.sin6_addr.s6_addr);
  Address a = Address::from(reinterpret_cast<sockaddr*>(&mapped));
  EXPECT_EQ(a.text_with_port(), "192.0.2.7:99");
}

TEST(Address, Subnets) {
  auto a = [](const char* t) { return *Address::parse(t); };
  EXPECT_TRUE(a("10.1.2.3").same_subnet(a("10.1.2.200"), 24));
  EXPECT_FALSE(a("10.1.2.3").same_subnet(a("10.1.3.3"), 24));
  EXPECT_TRUE(a("10.1.2.3").same_subnet(a("10.1.3.3"), 23));
  EXPECT_TRUE(a("10.1.2.3").same_subnet(a("99.1.3.3"), 0));
  EXPECT_FALSE(a("10.1.2.3").same_subnet(a("10.1.2.2"), 32));
  EXPECT_TRUE(a("fd00:1::1").same_subnet(a("fd00:1::2"), 64));
  EXPECT_FALSE(a("fd00:1::1").same_subnet(a("fd00:2::1"), 64));
  EXPECT_FALSE(a("fd00:1::1").same_subnet(a("10.1.2.3"), 0)) << "of two families";
}

TEST(Address, KindsOfHosts) {
  auto a = [](const char* t) { return *Address::parse(t); };
  EXPECT_TRUE(a("127.3.2.1").loopback());
  EXPECT_TRUE(a("::1").loopback());
  EXPECT_FALSE(a("10.0.0.1").loopback());
  EXPECT_TRUE(a("169.254.9.9").link_local());
  EXPECT_TRUE(a("fe80::1").link_local());
  EXPECT_FALSE(a("169.253.9.9").link_local());
}

}  // namespace
}  // namespace megascale::tcp
