#include "transport/session/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace megascale {
namespace {

// FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void store_big_endian(uint8_t* p, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i, value >>= 8) p[i] = static_cast<uint8_t>(value);
}

}  // namespace

// FIPS 180-4, 5.3.3.
Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {
}

// FIPS 180-4, 6.2.2.
void Sha256::compress(const uint8_t* block) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = load_big_endian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t worked[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += worked[i];
}

void Sha256::update(Octets bytes) {
  total_ += bytes.size();
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), block_.size() - in_block_);
    std::memcpy(block_.data() + in_block_, bytes.data(), n);
    in_block_ += n;
    bytes = bytes.subspan(n);
    if (in_block_ == block_.size()) {
      compress(block_.data());
      in_block_ = 0;
    }
  }
}

// FIPS 180-4, 5.1.1: a one, zeros, and the length in bits.
Digest Sha256::finish() {
  static constexpr uint8_t kPad[64] = {0x80};
  uint8_t length[8];
  store_big_endian(length, total_ * 8, 8);
  const size_t pad = (in_block_ < 56 ? 56 : 120) - in_block_;
  update({kPad, pad});
  update(length);

  Digest digest;
  for (size_t i = 0; i < 8; ++i) store_big_endian(digest.data() + 4 * i, state_[i], 4);
  return digest;
}

Hmac::Hmac(Octets key) {
  std::array<uint8_t, 64> block{};
  if (key.size() > block.size()) {
    const Digest hashed = sha256(key);
    std::copy(hashed.begin(), hashed.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  for (uint8_t& b : block) b ^= 0x36;
  inner_.update(block);
  for (uint8_t& b : block) b ^= 0x36 ^ 0x5c;
  outer_.update(block);
  explicit_bzero(block.data(), block.size());
}

Digest Hmac::finish() {
  outer_.update(inner_.finish());
  return outer_.finish();
}

Digest sha256(Octets bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Digest hmac_sha256(Octets key, Octets text) {
  Hmac mac(key);
  mac.update(text);
  return mac.finish();
}

bool equal_in_constant_time(Octets a, Octets b) {
  if (a.size() != b.size()) return false;
  volatile uint8_t difference = 0;  // volatile: the compiler must not find a way to stop early
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace megascale
