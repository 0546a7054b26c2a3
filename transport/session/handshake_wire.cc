#include "transport/session/handshake_wire.h"

#include <algorithm>

namespace megascale {
namespace {

constexpr size_t kHelloFixed = 80;
constexpr size_t kAddressSize = 17;
constexpr size_t kChallengeSize = 8 + kNonceSize + 32;
constexpr size_t kRefuseSize = 4 + 32;
static_assert(kHandshakeHeader + kHelloFixed + kMaxAddresses * kAddressSize <= kMaxHandshakeMessage);

class Writer {
 public:
  Writer(const HandshakeIdentity& who, MessageType type, uint8_t flags, size_t size) {
    bytes_.reserve(kHandshakeHeader + size);
    put(kHandshakeMagic);
    put(who.plugin_id);
    put(who.version);
    put(static_cast<uint8_t>(type));
    put(flags);
    put(static_cast<uint16_t>(size));
    put(uint16_t{0});
  }

  template <class T>
  requires std::is_unsigned_v<T>
  void put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<uint8_t>(uint64_t{value} >> 8 * i));
  }
  void put(Octets octets) { bytes_.insert(bytes_.end(), octets.begin(), octets.end()); }

  Message done() { return std::move(bytes_); }

 private:
  Message bytes_;
};

// Reads a body whose size was checked before.
class Reader {
 public:
  explicit Reader(Octets bytes) : left_(bytes) {}

  template <class T>
  T get() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{left_[i]} << 8 * i;
    left_ = left_.subspan(sizeof(T));
    return static_cast<T>(value);
  }
  template <size_t N>
  void get(std::array<uint8_t, N>& out) {
    std::copy_n(left_.begin(), N, out.begin());
    left_ = left_.subspan(N);
  }

 private:
  Octets left_;
};

bool well_formed(const HandshakeAddress& a) {
  if (a.family == 6) return true;
  return a.family == 4 && std::all_of(a.bytes.begin() + 4, a.bytes.end(), [](uint8_t b) { return b == 0; });
}

}  // namespace

Message encode_hello(const HandshakeIdentity& who, uint8_t flags, const Hello& hello) {
  const HelloFields& f = hello.fields;
  const auto count = static_cast<uint8_t>(std::min<size_t>(f.address_count, kMaxAddresses));
  Writer w(who, MessageType::hello, flags, kHelloFixed + count * kAddressSize);
  w.put(static_cast<uint8_t>(f.purpose));
  w.put(count);
  w.put(f.rail);
  w.put(f.listener_port);
  w.put(uint16_t{0});
  w.put(f.epoch);
  w.put(f.instance);
  w.put(f.incarnation);
  w.put(f.connection_id);
  w.put(f.connection_nonce);
  w.put(f.expected_incarnation);
  w.put(hello.nonce);
  for (size_t i = 0; i < count; ++i) {
    w.put(f.addresses[i].family);
    w.put(f.addresses[i].bytes);
  }
  return w.done();
}

std::optional<Hello> decode_hello(Octets body) {
  if (body.size() < kHelloFixed) return {};
  Hello hello;
  HelloFields& f = hello.fields;
  Reader r(body);
  const uint8_t purpose = r.get<uint8_t>();
  f.address_count = r.get<uint8_t>();
  if (purpose < 1 || purpose > 2 || f.address_count > kMaxAddresses) return {};
  if (body.size() != kHelloFixed + f.address_count * kAddressSize) return {};
  f.purpose = static_cast<Purpose>(purpose);
  f.rail = r.get<uint16_t>();
  f.listener_port = r.get<uint16_t>();
  const uint16_t zero = r.get<uint16_t>();
  f.epoch = r.get<uint32_t>();
  f.instance = r.get<uint32_t>();
  if (zero != 0) return {};
  f.incarnation = r.get<uint64_t>();
  f.connection_id = r.get<uint64_t>();
  f.connection_nonce = r.get<uint64_t>();
  f.expected_incarnation = r.get<uint64_t>();
  r.get(hello.nonce);
  for (size_t i = 0; i < f.address_count; ++i) {
    f.addresses[i].family = r.get<uint8_t>();
    r.get(f.addresses[i].bytes);
    if (!well_formed(f.addresses[i])) return {};
  }
  return hello;
}

Message encode_challenge(const HandshakeIdentity& who, uint8_t flags, const Challenge& challenge) {
  Writer w(who, MessageType::challenge, flags, kChallengeSize);
  w.put(challenge.incarnation);
  w.put(challenge.nonce);
  w.put(challenge.proof);
  return w.done();
}

std::optional<Challenge> decode_challenge(Octets body) {
  if (body.size() != kChallengeSize) return {};
  Challenge challenge;
  Reader r(body);
  challenge.incarnation = r.get<uint64_t>();
  r.get(challenge.nonce);
  r.get(challenge.proof);
  return challenge;
}

Octets before_proof(const Message& challenge) {
  return Octets(challenge).first(challenge.size() - sizeof(Digest));
}

Message encode_proof(const HandshakeIdentity& who, uint8_t flags, MessageType type, const Digest& proof) {
  Writer w(who, type, flags, proof.size());
  w.put(proof);
  return w.done();
}

std::optional<Digest> decode_proof(Octets body) {
  Digest proof;
  if (body.size() != proof.size()) return {};
  std::copy(body.begin(), body.end(), proof.begin());
  return proof;
}

Message encode_refuse(const HandshakeIdentity& who, uint8_t flags, uint16_t reason, const Digest& proof) {
  Writer w(who, MessageType::refuse, flags, kRefuseSize);
  w.put(reason);
  w.put(uint16_t{0});
  w.put(proof);
  return w.done();
}

std::optional<Refuse> decode_refuse(Octets body) {
  if (body.size() < sizeof(uint16_t)) return {};
  Refuse refuse{Reader(body).get<uint16_t>(), {}};
  if (body.size() == kRefuseSize) refuse.proof = decode_proof(body.subspan(4));
  return refuse;
}

MessageReader::Outcome MessageReader::take(Octets in, size_t& taken) {
  taken = 0;
  while (true) {
    const size_t have = bytes_.size();
    const size_t want = have < kHandshakeHeader ? kHandshakeHeader : kHandshakeHeader + header_.size;
    if (have >= kHandshakeHeader && !told_header_) {
      if (!parse_header()) return Outcome::malformed;
      told_header_ = true;
      return Outcome::header;
    }
    if (have == want) return Outcome::whole;
    if (taken == in.size()) return Outcome::more;
    const auto piece = in.subspan(taken).first(std::min(want - have, in.size() - taken));
    bytes_.insert(bytes_.end(), piece.begin(), piece.end());
    taken += piece.size();
    const size_t magic = std::min(bytes_.size(), kHandshakeMagic.size());
    if (!std::equal(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(magic),
                    kHandshakeMagic.begin())) {
      return Outcome::stranger;
    }
  }
}

bool MessageReader::parse_header() {
  Reader r(Octets(bytes_).subspan(kHandshakeMagic.size()));
  header_.identity.plugin_id = r.get<uint32_t>();
  header_.identity.version = r.get<uint16_t>();
  header_.type = static_cast<MessageType>(r.get<uint8_t>());
  header_.flags = r.get<uint8_t>();
  header_.size = r.get<uint16_t>();
  const uint16_t zero = r.get<uint16_t>();
  return zero == 0 && header_.size <= kMaxHandshakeMessage - kHandshakeHeader;
}

void MessageReader::next() {
  bytes_.clear();
  told_header_ = false;
}

}  // namespace megascale
