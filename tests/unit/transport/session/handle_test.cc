#include "transport/session/handle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace megascale {
namespace {

using Bytes128 = std::array<uint8_t, Handle::kBytes>;

Handle example(int addresses = 3) {
  Handle h{.port = 4711,
           .listener = 5,
           .nonce = 0x1234567890abcdef,
           .incarnation = 0xfedcba0987654321,
           .homes = 2};
  for (int i = 0; i < addresses; i++)
    h.addresses.push_back(
        *tcp::Address::parse(i % 2 ? "fd00::" + std::to_string(i + 1) : "10.0.0." + std::to_string(i + 1)));
  return h;
}

Bytes128 written(const Handle& h) {
  Bytes128 b;
  b.fill(0xaa);
  h.write(b.data());
  return b;
}

TEST(Handle, ComesBackAsItWas) {
  auto back = Handle::read(written(example()).data());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->port, 4711);
  EXPECT_EQ(back->listener, 5u);
  EXPECT_EQ(back->nonce, 0x1234567890abcdefu);
  EXPECT_EQ(back->incarnation, 0xfedcba0987654321u);
  EXPECT_EQ(back->homes, 2);
  ASSERT_EQ(back->addresses.size(), 3u);
  EXPECT_EQ(back->addresses[0].text_with_port(), "10.0.0.1:4711");
  EXPECT_EQ(back->addresses[1].text_with_port(), "[fd00::2]:4711");
}

TEST(Handle, HoldsAsManyAddressesAsFit) {
  Handle h = example(0);
  for (int i = 1; i <= 40; i++) h.addresses.push_back(*tcp::Address::parse("10.0.1." + std::to_string(i)));
  auto back = Handle::read(written(h).data());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->addresses.size(), 14u);
  EXPECT_EQ(back->addresses[13].text(), "10.0.1.14");
}

// A device merged of eight ports with long addresses: only four fit, and the handle is still a good one.
TEST(Handle, MoreHomesThanFitAreStillAGoodHandle) {
  Handle h = example(0);
  h.homes = 8;
  for (int i = 1; i <= 8; i++) h.addresses.push_back(*tcp::Address::parse("fd00::" + std::to_string(i)));
  auto back = Handle::read(written(h).data());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->addresses.size(), 4u);
  EXPECT_EQ(back->homes, 4);
}

// NCCL calls connect again and again with the same copy: our progress is noted in its last bytes.
TEST(Handle, ScratchIsOursToUseAndTouchesNothingElse) {
  Bytes128 b = written(example());
  EXPECT_EQ(Handle::attempt(b.data()), 0u);
  Handle::set_attempt(b.data(), 77);
  EXPECT_EQ(Handle::attempt(b.data()), 77u);
  EXPECT_TRUE(Handle::read(b.data()));
  EXPECT_TRUE(std::equal(b.begin(), b.end() - Handle::kScratch, written(example()).begin()));
}

TEST(Handle, OfAnotherNetworkIsRefusedWithWhatToDo) {
  Bytes128 foreign{};
  foreign[0] = 2;  // as a sockaddr begins
  auto back = Handle::read(foreign.data());
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Code::invalid_usage);
  EXPECT_NE(back.error().message.find("NCCL_NET_PLUGIN"), std::string::npos) << back.error().message;
}

TEST(Handle, OfAnotherVersionIsRefusedWithBothVersions) {
  Bytes128 b = written(example());
  b[8]++;
  auto back = Handle::read(b.data());
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("version 2"), std::string::npos) << back.error().message;
  EXPECT_NE(back.error().message.find("we speak 1"), std::string::npos);
}

// Every byte, every value: a clear error or a handle that is good in itself, never more than that.
TEST(Handle, EveryByteChangedIsAnErrorOrAGoodHandle) {
  const Bytes128 good = written(example());
  int errors = 0;
  for (std::size_t at = 0; at < good.size(); at++)
    for (int value = 0; value < 256; value++) {
      Bytes128 b = good;
      b[at] = static_cast<uint8_t>(value);
      auto h = Handle::read(b.data());
      if (!h) {
        errors++;
        ASSERT_FALSE(h.error().message.empty());
        continue;
      }
      ASSERT_FALSE(h->addresses.empty());
      ASSERT_LE(h->addresses.size(), 14u);
      ASSERT_GE(h->homes, 1);
      ASSERT_LE(h->homes, h->addresses.size());
      ASSERT_NE(h->port, 0);
      for (auto& a : h->addresses) ASSERT_TRUE(a.family() == AF_INET || a.family() == AF_INET6);
    }
  EXPECT_GT(errors, 12 * 255) << "magic, id, version and the list are all looked at";
}

TEST(Handle, AListThatIsCutShortIsDamaged) {
  for (int lie : {4, 5, 15, 255}) {  // more addresses than there are
    Bytes128 b = written(example());
    b[13] = static_cast<uint8_t>(lie);
    auto h = Handle::read(b.data());
    ASSERT_FALSE(h) << lie;
    EXPECT_NE(h.error().message.find("damaged"), std::string::npos);
  }
  Bytes128 none = written(example());
  none[13] = 0;
  EXPECT_FALSE(Handle::read(none.data()));
  Bytes128 homeless = written(example());
  homeless[12] = 0;
  EXPECT_FALSE(Handle::read(homeless.data()));
  homeless[12] = 4;
  EXPECT_FALSE(Handle::read(homeless.data())) << "more homes than addresses";
}

TEST(Incarnation, NamesTheProcessAndIsNeverTheSame) {
  auto a = new_incarnation(), b = new_incarnation();
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_EQ(process_id_of(*a), getpid());
  EXPECT_EQ(process_id_of(*b), getpid());
}

}  // namespace
}  // namespace megascale
