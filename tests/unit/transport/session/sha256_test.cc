#include "transport/session/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace megascale {
namespace {

std::string hex(Octets bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t b : bytes) {
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text;
}

// The examples of FIPS 180-4's companion document and NIST's short and long message tests.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(hex(sha256(bytes_of(""))), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256(bytes_of("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(bytes_of(std::string(1'000'000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, TheCutsOfTheInputDoNotMatter) {
  const std::string text(200, 'x');
  for (size_t n = 0; n <= text.size(); ++n) {
    const Octets whole = bytes_of(text).first(n);
    for (size_t cut = 0; cut <= n; cut += 13) {
      Sha256 h;
      h.update(whole.first(cut));
      h.update(whole.subspan(cut));
      ASSERT_EQ(h.finish(), sha256(whole)) << n << " cut at " << cut;
    }
  }
}

// RFC 4231, test cases 1 to 4, 6 and 7.
TEST(Hmac, KnownAnswers) {
  const auto repeated = [](size_t n, uint8_t b) { return std::vector<uint8_t>(n, b); };
  EXPECT_EQ(hex(hmac_sha256(repeated(20, 0x0b), bytes_of("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(repeated(20, 0xaa), repeated(50, 0xdd))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::vector<uint8_t> counting;
  for (uint8_t i = 1; i <= 25; ++i) counting.push_back(i);
  EXPECT_EQ(hex(hmac_sha256(counting, repeated(50, 0xcd))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(hex(hmac_sha256(repeated(131, 0xaa),
                            bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex(hmac_sha256(
                repeated(131, 0xaa),
                bytes_of("This is a test using a larger than block-size key and a larger than block-size "
                         "data. The key needs to be hashed before being used by the HMAC algorithm."))),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, ACopyOfAKeyedOneIsAFreshStart) {
  const Hmac keyed(bytes_of("key"));
  for (const char* text : {"one", "two"}) {
    Hmac mac = keyed;
    mac.update(bytes_of(text));
    EXPECT_EQ(mac.finish(), hmac_sha256(bytes_of("key"), bytes_of(text)));
  }
}

TEST(ConstantTime, ComparesEveryByte) {
  const Digest a = sha256(bytes_of("a"));
  EXPECT_TRUE(equal_in_constant_time(a, a));
  for (size_t bit = 0; bit < 256; ++bit) {
    Digest b = a;
    b[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(equal_in_constant_time(a, b)) << bit;
  }
  EXPECT_FALSE(equal_in_constant_time(a, Octets(a).first(31)));
  EXPECT_TRUE(equal_in_constant_time({}, {}));
}

}  // namespace
}  // namespace megascale
