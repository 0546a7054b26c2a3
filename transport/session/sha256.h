// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), and the comparison that takes the same time wherever
// texts differ.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace megascale {

using Octets = std::span<const uint8_t>;
using Digest = std::array<uint8_t, 32>;

inline Octets bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class Sha256 {
 public:
  Sha256();
  void update(Octets);
  Digest finish();  // once; the object is used up then

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> block_{};
  size_t in_block_ = 0;
  uint64_t total_ = 0;
};

// Keyed once, copied for each message: a copy costs no hashing, and the key itself is not kept.
class Hmac {
 public:
  explicit Hmac(Octets key);
  void update(Octets bytes) { inner_.update(bytes); }
  Digest finish();

 private:
  Sha256 inner_, outer_;
};

Digest sha256(Octets);
Digest hmac_sha256(Octets key, Octets text);

// Looks at every byte whatever it finds; false when the sizes differ, and sizes are no secret.
bool equal_in_constant_time(Octets, Octets);

}  // namespace megascale
