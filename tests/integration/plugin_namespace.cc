// What needs a network of its own to be broken: the TCP link's judgement of silence, and the kernel's news of
// interfaces and addresses. Makes itself a network namespace; without the right to do so it is skipped aloud
// (status 77).
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <sched.h>

#include <cstdlib>
#include <iostream>
#include <set>

#include "tests/unit/transport/tcp/loopback.h"
#include "transport/tcp/netlink.h"

namespace megascale::tcp {
namespace {

// Whether a command of the administrator's went well.
bool does(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

struct Pair {
  std::unique_ptr<TcpLink> out, in;
  Notes out_notes, in_notes;
  std::vector<std::byte> there;

  explicit Pair(Duration flap_detect) : there(1 << 20) {
    auto [a, b] = connected();
    out = link_over(std::move(a), Side::sends, flap_detect);
    in = link_over(std::move(b), Side::receives, flap_detect);
    in_notes.place = [this](const Chunk&) { return there.data(); };
  }
  void drive() {
    out->poll(out_notes, clock_now());
    in->poll(in_notes, clock_now());
    out->check(out_notes, clock_now());
    in->check(in_notes, clock_now());
  }
  bool acknowledged() {
    return eventually([&] {
      tcp_info i{};
      socklen_t n = sizeof i;
      getsockopt(out->descriptor(), IPPROTO_TCP, TCP_INFO, &i, &n);
      drive();
      return i.tcpi_unacked == 0;
    });
  }
  void put(MessageId m) {
    ASSERT_EQ(
        out->put(out_notes, {.message = m, .total = 1000, .chunk_bytes = 1024}, there.data(), clock_now()),
        Post::ok);
  }
};

class Silence : public testing::Test {
 protected:
  void SetUp() override {
    if (!does("nft -v")) GTEST_SKIP() << "nft is not installed (package nftables)";
  }
  void TearDown() override { does("nft flush ruleset"); }
  static bool drop_everything() {
    return does("nft add table inet t") &&
           does("nft 'add chain inet t in { type filter hook input priority 0; }'") &&
           does("nft add rule inet t in drop");
  }
};

TEST_F(Silence, WithDataOwedIsFoundInTime) {
  Pair p(250ms);
  p.put(0);
  ASSERT_TRUE(eventually([&] { return p.drive(), p.in_notes.arrived.size() == 1; }));
  ASSERT_TRUE(p.acknowledged());
  ASSERT_TRUE(drop_everything());
  p.put(1);
  Time begun = clock_now();
  ASSERT_TRUE(eventually([&] { return p.drive(), !p.out_notes.causes.empty(); }));
  std::cout << "found after " << seconds(clock_now() - begun) * 1e3 << " ms\n";
  EXPECT_GE(clock_now() - begun, 250ms);
  EXPECT_LT(clock_now() - begun, 5s);
  EXPECT_EQ(p.out_notes.causes, std::vector<Cause>{Cause::silence});
  EXPECT_TRUE(p.in_notes.causes.empty()) << "who owes nothing sees nothing wrong";
}

TEST_F(Silence, WithNothingOwedIsNone) {
  Pair p(100ms);
  p.put(0);
  ASSERT_TRUE(eventually([&] { return p.drive(), p.in_notes.arrived.size() == 1; }));
  ASSERT_TRUE(p.acknowledged());
  ASSERT_TRUE(drop_everything());
  for (Time end = clock_now() + 1s; clock_now() < end; std::this_thread::sleep_for(5ms)) p.drive();
  EXPECT_TRUE(p.out_notes.causes.empty());
  EXPECT_TRUE(p.in_notes.causes.empty());
}

TEST_F(Silence, ThatEndsInTimeIsNone) {
  Pair p(5s);
  ASSERT_TRUE(drop_everything());
  p.put(0);
  for (Time end = clock_now() + 500ms; clock_now() < end; std::this_thread::sleep_for(5ms)) p.drive();
  ASSERT_TRUE(does("nft flush ruleset"));
  EXPECT_TRUE(eventually([&] { return p.drive(), p.in_notes.arrived.size() == 1; }))
      << "the kernel repeats it";
  EXPECT_TRUE(p.out_notes.causes.empty());
}

class News : public testing::Test {
 protected:
  void SetUp() override {
    if (!does("ip link add dum0 type veth peer name dum1"))
      GTEST_SKIP() << "no interface can be made (iproute2, kernel module veth)";
    ASSERT_TRUE(does("ip link set dum1 up"));
  }
  void TearDown() override { does("ip link del dum0"); }
  bool heard(Netlink& n, Netlink::News::What what, const std::string& address = "") {
    return eventually(
        [&] {
          bool found = false;
          n.read([&](const Netlink::News& news) {
            found |= news.what == what &&
                     (address.empty() ? news.interface == "dum0" : news.address.text() == address);
          });
          return found;
        },
        10s);
  }
};

TEST_F(News, OfInterfacesAndAddresses) {
  using What = Netlink::News::What;
  Netlink n;
  ASSERT_GE(n.descriptor(), 0);
  EXPECT_FALSE(n.read([](const Netlink::News&) {})) << "nothing has happened yet";
  ASSERT_TRUE(does("ip link set dum0 up"));
  EXPECT_TRUE(heard(n, What::interface_up));
  ASSERT_TRUE(does("ip addr add 10.9.8.7/24 dev dum0"));
  EXPECT_TRUE(heard(n, What::address_added, "10.9.8.7"));
  ASSERT_TRUE(does("ip -6 addr add fd00:9::7/64 dev dum0 nodad"));
  EXPECT_TRUE(heard(n, What::address_added, "fd00:9::7"));
  ASSERT_TRUE(does("ip addr del 10.9.8.7/24 dev dum0"));
  EXPECT_TRUE(heard(n, What::address_removed, "10.9.8.7"));
  ASSERT_TRUE(does("ip link set dum0 down"));
  EXPECT_TRUE(heard(n, What::interface_down));
}

TEST_F(News, AndTheStateOfARail) {
  ASSERT_TRUE(does("ip link set dum0 up") && does("ip addr add 10.9.8.7/24 dev dum0"));
  Settings s;
  s.rails = "10.9.8.7";
  auto rails = find_rails(s);
  ASSERT_TRUE(rails) << rails.error().message;
  const Rail& r = (*rails)[0];
  EXPECT_EQ(r.name, "dum0");
  EXPECT_EQ(r.prefix, 24);
  EXPECT_EQ(state_of(r), RailState::up);
  ASSERT_TRUE(does("ip addr del 10.9.8.7/24 dev dum0"));
  EXPECT_EQ(state_of(r), RailState::address_gone);
  ASSERT_TRUE(does("ip addr add 10.9.8.7/24 dev dum0") && does("ip link set dum0 down"));
  EXPECT_EQ(state_of(r), RailState::interface_gone);
  ASSERT_TRUE(does("ip link set dum0 up"));
  EXPECT_EQ(state_of(r), RailState::up);
}

TEST_F(News, InterfacesAreChosenByNotation) {
  ASSERT_TRUE(does("ip link set dum0 up") && does("ip addr add 10.9.8.7/24 dev dum0"));
  ASSERT_TRUE(does("ip link set dum1 up") && does("ip addr add 10.9.7.7/24 dev dum1"));
  auto names = [](const std::string& notation) {
    Settings s;
    s.interfaces = notation;
    s.address_family = "AF_INET";
    std::set<std::string> sorted;
    if (auto rails = find_rails(s))
      for (auto& r : *rails) sorted.insert(r.name);
    std::string all;
    for (auto& name : sorted) all += name + " ";
    return all;
  };
  EXPECT_EQ(names(""), "dum0 dum1 ") << "loopback is left out where there is better";
  EXPECT_EQ(names("dum"), "dum0 dum1 ");
  EXPECT_EQ(names("=dum1"), "dum1 ");
  EXPECT_EQ(names("^dum0,lo"), "dum1 ");
  EXPECT_EQ(names("eth"), "");
}

}  // namespace
}  // namespace megascale::tcp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (unshare(CLONE_NEWNET) || std::system("ip link set lo up")) {
    std::cout << "SKIP: no network namespace can be made here (needs root and iproute2): " << strerror(errno)
              << "\n";
    return 77;
  }
  return RUN_ALL_TESTS();
}
