#include "plugin/host/rendezvous_wire.h"

#include <cstring>

namespace megascale::host::wire {
namespace {

constexpr char kMagic[4] = {'M', 'G', 'R', 'V'};

void store(uint8_t* to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint32_t load(const uint8_t* from, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(from[i]) << (8 * i);
  return value;
}

}  // namespace

std::array<uint8_t, kHeaderSize> encode(const Header& header) {
  std::array<uint8_t, kHeaderSize> bytes{};
  std::memcpy(bytes.data(), kMagic, sizeof kMagic);
  store(&bytes[4], header.version, 2);
  store(&bytes[6], static_cast<uint32_t>(header.kind), 2);
  store(&bytes[8], header.rank, 4);
  store(&bytes[12], header.sequence, 4);
  store(&bytes[16], header.length, 4);
  return bytes;
}

std::optional<Header> decode(const uint8_t* bytes) {
  if (std::memcmp(bytes, kMagic, sizeof kMagic) != 0) return std::nullopt;
  Header header;
  header.version = static_cast<uint16_t>(load(bytes + 4, 2));
  header.kind = static_cast<Kind>(load(bytes + 6, 2));
  header.rank = load(bytes + 8, 4);
  header.sequence = load(bytes + 12, 4);
  header.length = load(bytes + 16, 4);
  return header;
}

std::string frame(Kind kind, uint32_t rank, uint32_t sequence, std::string_view body) {
  const auto header = encode({kVersion, kind, rank, sequence, static_cast<uint32_t>(body.size())});
  std::string text(header.begin(), header.end());
  text += body;
  return text;
}

void put_u32(std::string& text, uint32_t value) {
  uint8_t bytes[4];
  store(bytes, value, 4);
  text.append(reinterpret_cast<const char*>(bytes), 4);
}

std::optional<uint32_t> take_u32(std::string_view& text) {
  if (text.size() < 4) return std::nullopt;
  const uint32_t value = load(reinterpret_cast<const uint8_t*>(text.data()), 4);
  text.remove_prefix(4);
  return value;
}

std::string pack(const std::vector<std::string>& blobs) {
  std::string body;
  for (const std::string& blob : blobs) {
    put_u32(body, static_cast<uint32_t>(blob.size()));
    body += blob;
  }
  return body;
}

std::optional<std::vector<std::string>> unpack(std::string_view body, size_t count) {
  std::vector<std::string> blobs;
  for (size_t i = 0; i < count; ++i) {
    const auto length = take_u32(body);
    if (!length || *length > body.size()) return std::nullopt;
    blobs.emplace_back(body.substr(0, *length));
    body.remove_prefix(*length);
  }
  if (!body.empty()) return std::nullopt;
  return blobs;
}

Digest prove(Proof proof, std::string_view secret, std::string_view root_nonce, std::string_view member_nonce,
             uint32_t member_rank, uint32_t ranks) {
  std::string text = proof == Proof::hello ? "megascale rendezvous hello" : "megascale rendezvous welcome";
  text += root_nonce;
  text += member_nonce;
  put_u32(text, member_rank);
  put_u32(text, ranks);
  return hmac_sha256(bytes_of(secret), bytes_of(text));
}

}  // namespace megascale::host::wire
