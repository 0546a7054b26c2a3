#include "plugin/host/rendezvous_wire.h"

#include <gtest/gtest.h>

namespace megascale::host::wire {
namespace {

TEST(RendezvousWire, HeaderReadsBack) {
  const auto bytes = encode({3, Kind::failure, 7, 0x01020304, 99});
  EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + 4), "MGRV");
  EXPECT_EQ(bytes[12], 4);  // little-endian
  const auto header = decode(bytes.data());
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->version, 3);
  EXPECT_EQ(header->kind, Kind::failure);
  EXPECT_EQ(header->rank, 7U);
  EXPECT_EQ(header->sequence, 0x01020304U);
  EXPECT_EQ(header->length, 99U);
}

TEST(RendezvousWire, AnotherMagicIsRefused) {
  auto bytes = encode({});
  bytes[0] = 'm';
  EXPECT_FALSE(decode(bytes.data()).has_value());
}

TEST(RendezvousWire, BlobsReadBackAndNothingElseDoes) {
  const std::vector<std::string> blobs{"", "a", std::string(1000, 'x')};
  const std::string packed = pack(blobs);
  EXPECT_EQ(unpack(packed, 3), blobs);
  EXPECT_FALSE(unpack(packed, 2).has_value());
  EXPECT_FALSE(unpack(packed, 4).has_value());
  for (size_t length = 0; length < packed.size(); ++length) {
    EXPECT_FALSE(unpack(std::string_view(packed).substr(0, length), 3).has_value());
  }
  std::string hostile;
  put_u32(hostile, 0xffffffff);
  EXPECT_FALSE(unpack(hostile, 1).has_value());
}

TEST(RendezvousWire, ProofDependsOnEverything) {
  const std::string a(kNonceSize, 'a'), b(kNonceSize, 'b');
  const Digest proof = prove(Proof::hello, "secret", a, b, 1, 4);
  EXPECT_EQ(prove(Proof::hello, "secret", a, b, 1, 4), proof);
  EXPECT_NE(prove(Proof::welcome, "secret", a, b, 1, 4), proof);
  EXPECT_NE(prove(Proof::hello, "Secret", a, b, 1, 4), proof);
  EXPECT_NE(prove(Proof::hello, "secret", b, a, 1, 4), proof);
  EXPECT_NE(prove(Proof::hello, "secret", a, b, 2, 4), proof);
  EXPECT_NE(prove(Proof::hello, "secret", a, b, 1, 5), proof);
}

}  // namespace
}  // namespace megascale::host::wire
