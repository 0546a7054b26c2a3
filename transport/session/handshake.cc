#include "transport/session/handshake.h"

#include <algorithm>
#include <cstdio>

namespace megascale {
namespace {

constexpr std::string_view kByListener = "megascale handshake 1: listener";
constexpr std::string_view kByDialer = "megascale handshake 1: dialer";
constexpr std::string_view kWelcome = "megascale handshake 1: welcome";
constexpr std::string_view kRefusal = "megascale handshake 1: refusal";

constexpr bool needs_proof(RefusalReason reason) { return reason >= RefusalReason::unknown_connection; }

std::array<uint8_t, 2> octets_of(RefusalReason reason) {
  const auto code = static_cast<uint16_t>(reason);
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(code >> 8)};
}

}  // namespace

Handshake::Handshake(std::string_view secret, const HandshakeIdentity& identity, MessageType expected)
    : identity_(identity),
      flags_(secret.empty() ? 0 : kHasSecret),
      key_(bytes_of(secret)),
      expected_(expected) {
  refusal_.ours = refusal_.theirs = identity;
}

void Handshake::consume_out(size_t n) {
  out_begin_ = std::min(out_begin_ + n, out_.size());
  if (out_begin_ < out_.size()) return;
  out_.clear();
  out_begin_ = 0;
}

void Handshake::say(Message message) { out_.insert(out_.end(), message.begin(), message.end()); }

Digest Handshake::proof_of(std::string_view label, Octets more) const {
  Hmac mac = key_;
  mac.update(bytes_of(label));
  mac.update(said_);
  mac.update(more);
  return mac.finish();
}

size_t Handshake::feed(Octets in) {
  size_t used = 0;
  while (state_ == HandshakeState::talking) {
    size_t taken = 0;
    const auto outcome = reader_.take(in.subspan(used), taken);
    used += taken;
    switch (outcome) {
      case MessageReader::Outcome::more:
        return used;
      case MessageReader::Outcome::stranger:
        fail(RefusalReason::stranger, false, false);
        break;
      case MessageReader::Outcome::malformed:
        refuse_peer(RefusalReason::malformed);
        break;
      case MessageReader::Outcome::header:
        check_header(reader_.header());
        break;
      case MessageReader::Outcome::whole:
        if (reader_.header().type == MessageType::refuse) heard_refusal(reader_);
        else heard(reader_);
        reader_.next();
        break;
    }
  }
  return used;
}

// Before the rest of the message is waited for: another version may mean something else by it.
void Handshake::check_header(const HandshakeHeader& header) {
  refusal_.theirs = header.identity;
  if (header.type == MessageType::refuse) return;
  if (header.identity.plugin_id != identity_.plugin_id) return refuse_peer(RefusalReason::plugin_id);
  if (header.identity.version != identity_.version) return refuse_peer(RefusalReason::version);
  if (header.type != expected_ || (header.flags & ~kHasSecret) != 0)
    return refuse_peer(RefusalReason::malformed);
  if (header.flags == flags_) return;
  const bool dialer_lacks = from_dialer(header) == (flags_ == kHasSecret);
  refuse_peer(dialer_lacks ? RefusalReason::dialer_without_secret : RefusalReason::listener_without_secret);
}

bool Handshake::from_dialer(const HandshakeHeader& header) const {
  return header.type == MessageType::hello || header.type == MessageType::proof;
}

void Handshake::heard_refusal(const MessageReader& message) {
  const auto refuse = decode_refuse(message.body());
  if (!refuse) return fail(RefusalReason::malformed, false, false);
  // Of another plugin or version, that is the reason, whatever else it says.
  const HandshakeIdentity& theirs = message.header().identity;
  if (theirs.plugin_id != identity_.plugin_id) return fail(RefusalReason::plugin_id, true, false);
  if (theirs.version != identity_.version) return fail(RefusalReason::version, true, false);

  const auto reason = static_cast<RefusalReason>(refuse->reason);
  const Digest proof = proof_of(kRefusal, octets_of(reason));
  const bool proved = refuse->proof && equal_in_constant_time(*refuse->proof, proof);
  // A connection must not end because somebody on the path says that it is closed.
  if (!refuse->proof || reason == RefusalReason::none || (needs_proof(reason) && !proved)) {
    return fail(RefusalReason::malformed, false, false);
  }
  fail(reason, true, proved);
}

void Handshake::refuse_peer(RefusalReason reason, bool with_proof) {
  const Digest proof = with_proof ? proof_of(kRefusal, octets_of(reason)) : Digest{};
  say(encode_refuse(identity_, flags_, static_cast<uint16_t>(reason), proof));
  fail(reason, false, with_proof);
}

void Handshake::fail(RefusalReason reason, bool by_peer, bool proved) {
  refusal_.reason = reason;
  refusal_.by_peer = by_peer;
  refusal_.proved = proved;
  state_ = HandshakeState::refused;
}

DialerHandshake::DialerHandshake(const HelloFields& fields, std::string_view secret, const Nonce& nonce,
                                 const HandshakeIdentity& identity)
    : Handshake(secret, identity, MessageType::challenge) {
  const Message hello = encode_hello(identity_, flags_, {fields, nonce});
  remember(hello);
  say(hello);
}

void DialerHandshake::heard(const MessageReader& message) {
  if (message.header().type == MessageType::challenge) heard_challenge(message);
  else heard_welcome(message);
}

void DialerHandshake::heard_challenge(const MessageReader& message) {
  const auto challenge = decode_challenge(message.body());
  if (!challenge) return refuse_peer(RefusalReason::malformed);
  const Digest expected = proof_of(kByListener, before_proof(message.whole()));
  if (!equal_in_constant_time(challenge->proof, expected)) return refuse_peer(RefusalReason::wrong_secret);
  listener_incarnation_ = challenge->incarnation;
  remember(message.whole());

  const Message proof = encode_proof(identity_, flags_, MessageType::proof, proof_of(kByDialer));
  remember(proof);
  say(proof);
  expect(MessageType::welcome);
}

void DialerHandshake::heard_welcome(const MessageReader& message) {
  const auto proof = decode_proof(message.body());
  if (!proof) return refuse_peer(RefusalReason::malformed);
  if (!equal_in_constant_time(*proof, proof_of(kWelcome))) return refuse_peer(RefusalReason::wrong_secret);
  reach(HandshakeState::agreed);
}

ListenerHandshake::ListenerHandshake(uint64_t incarnation, std::string_view secret, const Nonce& nonce,
                                     const HandshakeIdentity& identity)
    : Handshake(secret, identity, MessageType::hello), incarnation_(incarnation), nonce_(nonce) {}

void ListenerHandshake::heard(const MessageReader& message) {
  if (message.header().type == MessageType::hello) heard_hello(message);
  else heard_proof(message);
}

void ListenerHandshake::heard_hello(const MessageReader& message) {
  const auto hello = decode_hello(message.body());
  if (!hello) return refuse_peer(RefusalReason::malformed);
  hello_ = *hello;
  remember(message.whole());

  Challenge challenge{incarnation_, nonce_, {}};
  const Message unproved = encode_challenge(identity_, flags_, challenge);
  challenge.proof = proof_of(kByListener, before_proof(unproved));
  const Message whole = encode_challenge(identity_, flags_, challenge);
  remember(whole);
  say(whole);
  expect(MessageType::proof);
}

void ListenerHandshake::heard_proof(const MessageReader& message) {
  const auto proof = decode_proof(message.body());
  if (!proof) return refuse_peer(RefusalReason::malformed);
  if (!equal_in_constant_time(*proof, proof_of(kByDialer))) return refuse_peer(RefusalReason::wrong_secret);
  remember(message.whole());
  reach(HandshakeState::deciding);
}

void ListenerHandshake::accept() {
  if (state() != HandshakeState::deciding) return;
  say(encode_proof(identity_, flags_, MessageType::welcome, proof_of(kWelcome)));
  reach(HandshakeState::agreed);
}

void ListenerHandshake::refuse(RefusalReason reason) {
  if (state() == HandshakeState::deciding) return refuse_peer(reason, true);
  if (state() == HandshakeState::talking) refuse_peer(RefusalReason::too_many);
}

}  // namespace megascale
