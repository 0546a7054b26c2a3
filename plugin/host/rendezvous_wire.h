// The rendezvous's messages on the wire.
//
// A frame is a header of 20 bytes and a body; all numbers are little-endian.
//   offset 0  magic "MGRV"      4  version, 16 bits      6  kind, 16 bits
//          8  rank of the writer, 32 bits               12  sequence, 32 bits     16  length of the body, 32
//          bits
// Bodies:
//   challenge     nonce of rank 0, 32 bytes
//   hello         ranks (32 bits), nonce of the member (32 bytes), proof (32 bytes)
//   welcome       proof of rank 0, 32 bytes
//   refused       a sentence for people
//   contribution  a blob; `sequence` counts the exchanges
//   collection    for each rank: length (32 bits), blob
//   failure       rank that failed (32 bits, all ones: unknown), a sentence for people
//   departed      rank whose connection ended without a goodbye (32 bits)
//   goodbye       nothing
// A proof is HMAC-SHA-256 under the job's secret (empty when there is none) over a word that tells the two
// proofs apart, both nonces, the member's rank and the number of ranks: the secret never travels, nothing can
// be replayed.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/session/sha256.h"

namespace megascale::host::wire {

inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kHeaderSize = 20;
inline constexpr size_t kNonceSize = 32;
inline constexpr uint32_t kMaxStrangerBody = 256;     // before the other end has proved itself
inline constexpr uint32_t kMaxBlob = 16U << 20;       // of one rank
inline constexpr uint32_t kMaxCollection = 1U << 30;  // of all ranks
inline constexpr uint32_t kNobody = 0xffffffff;

enum class Kind : uint16_t {
  challenge = 1,
  hello,
  welcome,
  refused,
  contribution,
  collection,
  failure,
  departed,
  goodbye,
};

struct Header {
  uint16_t version = kVersion;
  Kind kind = Kind::goodbye;
  uint32_t rank = 0;
  uint32_t sequence = 0;
  uint32_t length = 0;
};

std::array<uint8_t, kHeaderSize> encode(const Header&);
std::optional<Header> decode(const uint8_t* bytes);  // of kHeaderSize; nothing when the magic is another

std::string frame(Kind, uint32_t rank, uint32_t sequence, std::string_view body);

void put_u32(std::string&, uint32_t);
std::optional<uint32_t> take_u32(std::string_view&);  // from the front; nothing when it is too short

std::string pack(const std::vector<std::string>& blobs);
std::optional<std::vector<std::string>> unpack(std::string_view body,
                                               size_t count);  // nothing unless it fits exactly

enum class Proof { hello, welcome };
Digest prove(Proof, std::string_view secret, std::string_view root_nonce, std::string_view member_nonce,
             uint32_t member_rank, uint32_t ranks);

}  // namespace megascale::host::wire
