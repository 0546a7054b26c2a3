// The session handshake as two pure state machines, bytes in and bytes out: no socket, no clock, no random
// numbers of its own. Whoever owns the socket carries the bytes and keeps the deadline.
//
//   dialer                      listener
//     HELLO    ------------------->            what it is, which connection it wants, a fresh nonce
//              <-------------------  CHALLENGE incarnation, a fresh nonce, HMAC("listener", all so far)
//     PROOF    ------------------->            HMAC("dialer", all so far)
//              <-------------------  WELCOME   HMAC("welcome", all so far), or REFUSE with a reason
//
// Both ends prove that they know the job's secret; it never travels. The nonces make a recorded conversation
// useless. Each proof covers every byte said before it in both directions, so nothing can be changed on the
// way, least of all whether a secret is used. With no secret on either side the key is empty: the handshake
// then only checks that the bytes are intact and fresh. Who has the secret learns whether a connection
// exists; others get the same answer for every connection id. (RFC 2104 for HMAC; the form is that of ISO/IEC
// 9798-4, mutual authentication in three passes. Whoever reaches the port gets one HMAC over known text, so a
// secret must be too long to guess: 16 random bytes.)
#pragma once
#include <string>
#include <string_view>

#include "transport/session/handshake_wire.h"

namespace megascale {

enum class HandshakeState {
  talking,   // bytes are awaited, or to be sent
  deciding,  // listener: the dialer proved itself, the owner must accept() or refuse()
  agreed,    // what comes after the last byte taken is the session's
  refused,   // send what is outgoing, if anything, and close
};

enum class RefusalReason : uint16_t {
  none = 0,
  stranger = 1,  // not said on the wire: strangers get no answer
  malformed = 2,
  plugin_id = 3,
  version = 4,
  dialer_without_secret = 5,
  listener_without_secret = 6,
  wrong_secret = 7,
  too_many = 8,
  // From here on said only to a peer that proved itself, with a proof; without one they are not believed.
  unknown_connection = 16,
  stale_incarnation = 17,
  stale_epoch = 18,
  closed = 19,
};

std::string_view name_of(RefusalReason);  // one word for events: "wrong_secret"

struct Refusal {
  RefusalReason reason = RefusalReason::none;
  bool by_peer = false;    // they refused us; else we them
  bool proved = false;     // by a peer that knows the secret; else anybody on the path may have said it
  HandshakeIdentity ours;  // for the sentence
  HandshakeIdentity theirs;

  std::string sentence() const;  // why, and what to do
};

class Handshake {
 public:
  virtual ~Handshake() = default;
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // What is to be sent now; consume_out() what was.
  Octets outgoing() const { return Octets(out_).subspan(out_begin_); }
  void consume_out(size_t n);

  // Takes bytes that came and answers how many of them were the handshake's; never one behind its end.
  size_t feed(Octets);

  HandshakeState state() const { return state_; }
  const Refusal& refusal() const { return refusal_; }

 protected:
  Handshake(std::string_view secret, const HandshakeIdentity&, MessageType expected);

  virtual void heard(const MessageReader&) = 0;  // a whole message of the expected type

  void say(Message);
  void expect(MessageType type) { expected_ = type; }
  void remember(const Message& message) { said_.insert(said_.end(), message.begin(), message.end()); }
  Digest proof_of(std::string_view label, Octets more = {}) const;
  void reach(HandshakeState state) { state_ = state; }
  // We refuse; the peer is told, with a proof if it proved itself before.
  void refuse_peer(RefusalReason, bool with_proof = false);

  const HandshakeIdentity identity_;
  const uint8_t flags_;

 private:
  void check_header(const HandshakeHeader&);
  void heard_refusal(const MessageReader&);
  void fail(RefusalReason, bool by_peer, bool proved);
  bool from_dialer(const HandshakeHeader&) const;

  const Hmac key_;
  MessageType expected_;
  HandshakeState state_ = HandshakeState::talking;
  Refusal refusal_;
  MessageReader reader_;
  Message said_;  // everything that proofs cover
  Message out_;
  size_t out_begin_ = 0;
};

class DialerHandshake final : public Handshake {
 public:
  // `nonce`: 32 fresh bytes of random_bytes().
  DialerHandshake(const HelloFields&, std::string_view secret, const Nonce& nonce,
                  const HandshakeIdentity& = {});

  // Of the listener's process; believed from agreed on.
  uint64_t listener_incarnation() const { return listener_incarnation_; }

 private:
  void heard(const MessageReader&) override;
  void heard_challenge(const MessageReader&);
  void heard_welcome(const MessageReader&);

  uint64_t listener_incarnation_ = 0;
};

class ListenerHandshake final : public Handshake {
 public:
  ListenerHandshake(uint64_t incarnation, std::string_view secret, const Nonce& nonce,
                    const HandshakeIdentity& = {});

  // What the dialer said, from deciding on. Nothing of it may be acted on before.
  const HelloFields& hello() const { return hello_.fields; }

  // In deciding: the answer. Earlier, refuse() says too_many, whatever the reason, and accept() does nothing.
  void accept();
  void refuse(RefusalReason);

 private:
  void heard(const MessageReader&) override;
  void heard_hello(const MessageReader&);
  void heard_proof(const MessageReader&);

  const uint64_t incarnation_;
  const Nonce nonce_;
  Hello hello_;
};

}  // namespace megascale
