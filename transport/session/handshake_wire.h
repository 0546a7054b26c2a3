// The messages of the session handshake: their fields, their bytes, and a reader that takes one at a time
// from a stream.
//
// Every message begins with the same 16 bytes, little-endian like all that follows, in every version of the
// protocol:
//
//   magic "MGSC" | plugin id u32 | version u16 | type u8 | flags u8 | size of the rest u16 | zero u16
//
//   type 1 HELLO      dialer    what it is and wants (HelloFields), and its nonce
//   type 2 CHALLENGE  listener  incarnation u64 | nonce 32 | proof 32
//   type 3 PROOF      dialer    proof 32
//   type 4 WELCOME    listener  proof 32
//   type 5 REFUSE     either    reason u16 | zero u16 | proof 32, all zero when the other end has proved
//   nothing yet
//
// Flag 1: the sender has a secret. Of a REFUSE of another version only the reason is read. A whole
// conversation is under 600 bytes.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/session/sha256.h"

namespace megascale {

inline constexpr std::array<uint8_t, 4> kHandshakeMagic = {'M', 'G', 'S', 'C'};
inline constexpr uint32_t kPluginId = 0x6c617301;
inline constexpr uint16_t kProtocolVersion = 1;
inline constexpr size_t kMaxAddresses = 16;
inline constexpr size_t kNonceSize = 32;
inline constexpr size_t kHandshakeHeader = 16;
inline constexpr size_t kMaxHandshakeMessage = 512;

using Nonce = std::array<uint8_t, kNonceSize>;

// Who speaks, as the header says it. Anything but the defaults is for tests.
struct HandshakeIdentity {
  uint32_t plugin_id = kPluginId;
  uint16_t version = kProtocolVersion;
  bool operator==(const HandshakeIdentity&) const = default;
};

struct HandshakeAddress {
  uint8_t family = 4;               // 4 or 6
  std::array<uint8_t, 16> bytes{};  // network order; of family 4 the first 4, the others are zero
  bool operator==(const HandshakeAddress&) const = default;
};

enum class Purpose : uint8_t {
  link = 1,   // this socket becomes a link of the connection
  probe = 2,  // asks only whether the process is there and can be reached on this path
};

// What a dialer says of itself and wants. None of it is secret.
struct HelloFields {
  Purpose purpose = Purpose::link;
  uint64_t incarnation = 0;           // of the dialer's process
  uint64_t connection_id = 0;         // from the listener's handle
  uint64_t connection_nonce = 0;      // from the listener's handle
  uint64_t expected_incarnation = 0;  // of the listener's process, from its handle
  uint32_t instance = 0;  // the dialer's own number of the connection: a handle may be dialled twice
  uint32_t epoch = 0;  // of the link that this would be; of a probe: the newest that the dialer saw, and lost
  uint16_t rail = 0;
  uint16_t listener_port = 0;  // where the dialer itself listens; 0: nowhere
  uint8_t address_count = 0;   // of those below, at most 16
  std::array<HandshakeAddress, kMaxAddresses> addresses{};

  std::span<const HandshakeAddress> own_addresses() const { return {addresses.data(), address_count}; }
  bool operator==(const HelloFields&) const = default;
};

struct Hello {
  HelloFields fields;
  Nonce nonce{};
};

struct Challenge {
  uint64_t incarnation = 0;
  Nonce nonce{};
  Digest proof{};
};

enum class MessageType : uint8_t { hello = 1, challenge = 2, proof = 3, welcome = 4, refuse = 5 };

inline constexpr uint8_t kHasSecret = 1;

struct HandshakeHeader {
  HandshakeIdentity identity;
  MessageType type = MessageType::hello;
  uint8_t flags = 0;
  uint16_t size = 0;
};

using Message = std::vector<uint8_t>;

Message encode_hello(const HandshakeIdentity&, uint8_t flags, const Hello&);
Message encode_challenge(const HandshakeIdentity&, uint8_t flags, const Challenge&);
Message encode_proof(const HandshakeIdentity&, uint8_t flags, MessageType,
                     const Digest&);  // PROOF or WELCOME
Message encode_refuse(const HandshakeIdentity&, uint8_t flags, uint16_t reason, const Digest&);

// The rest of a message, after its header; nothing when it is malformed.
std::optional<Hello> decode_hello(Octets body);
std::optional<Challenge> decode_challenge(Octets body);
std::optional<Digest> decode_proof(Octets body);
struct Refuse {
  uint16_t reason = 0;
  std::optional<Digest> proof;  // nothing: not of this version
};
std::optional<Refuse> decode_refuse(Octets body);

// The bytes of a CHALLENGE that its own proof covers.
Octets before_proof(const Message& challenge);

// Collects one message from a stream that comes in pieces, and never takes a byte behind its end.
class MessageReader {
 public:
  enum class Outcome { more, header, whole, stranger, malformed };

  // Takes what belongs to the message from `in`. `header` is said once, when the first 16 bytes are there.
  Outcome take(Octets in, size_t& taken);
  void next();

  const HandshakeHeader& header() const { return header_; }
  const Message& whole() const { return bytes_; }
  Octets body() const { return Octets(bytes_).subspan(kHandshakeHeader); }

 private:
  bool parse_header();

  Message bytes_;
  HandshakeHeader header_;
  bool told_header_ = false;
};

}  // namespace megascale
