// Fuzzes the session handshake in both roles. The first byte chooses what is done with the rest:
//   'l', 'd'  they are what a listener, a dialer hears from somebody who does not know the secret
//   'h'       they are the fields of a HELLO
//   'e'       an honest conversation is held, and they edit it: pairs of a position and what is xored there
// Nobody without the secret is ever agreed with, and no edit goes unnoticed.
#include <cstdlib>

#include "tests/fuzz/fuzz.h"
#include "transport/session/handshake.h"

using namespace megascale;

namespace {

constexpr char kSecret[] = "the fuzzer does not know this";

Nonce nonce_of(uint8_t seed) {
  Nonce n;
  n.fill(seed);
  return n;
}

HelloFields fields() {
  HelloFields f{.incarnation = 1, .connection_id = 2, .connection_nonce = 3, .expected_incarnation = 4};
  f.address_count = 2;
  f.addresses[0] = {4, {127, 0, 0, 1}};
  f.addresses[1].family = 6;
  return f;
}

// In pieces of a size that the input chooses, as a socket may deliver them.
void feed_all(Handshake& h, Octets in, size_t piece) {
  while (!in.empty()) {
    const Octets now = in.first(std::min(piece, in.size()));
    const size_t used = h.feed(now);
    must(used <= now.size(), "took more than it was given");
    must(h.outgoing().size() < 1024, "answered too much");
    if (used < now.size()) {
      must(h.state() != HandshakeState::talking, "stopped in the middle");
      return;
    }
    in = in.subspan(used);
  }
}

void listen_to(Octets in, size_t piece) {
  ListenerHandshake listener(4, kSecret, nonce_of(2));
  feed_all(listener, in, piece);
  listener.accept();
  must(listener.state() == HandshakeState::talking || listener.state() == HandshakeState::refused,
       "a listener agreed with a stranger");
  must(!listener.refusal().sentence().empty(), "no reason");
}

void dial_into(Octets in, size_t piece) {
  DialerHandshake dialer(fields(), kSecret, nonce_of(1));
  dialer.consume_out(dialer.outgoing().size());
  feed_all(dialer, in, piece);
  must(dialer.state() != HandshakeState::agreed, "a dialer agreed with a stranger");
  must(!dialer.refusal().proved, "a stranger's refusal was proved");
}

class Editor {
 public:
  explicit Editor(Octets edits) : edits_(edits) {}

  // Whether it changed what `from` says to `to`.
  bool carry(Handshake& from, Handshake& to, uint8_t direction) {
    std::vector<uint8_t> bytes(from.outgoing().begin(), from.outgoing().end());
    from.consume_out(bytes.size());
    std::vector<uint8_t> edited = bytes;
    for (size_t i = 0; i + 2 < edits_.size(); i += 3) {
      const size_t at = edits_[i + 1];
      if ((edits_[i] & 3) == direction && at < edited.size()) edited[at] ^= edits_[i + 2];
    }
    to.feed(edited);
    return edited != bytes;
  }

 private:
  Octets edits_;
};

void edit(Octets in) {
  DialerHandshake dialer(fields(), kSecret, nonce_of(1));
  ListenerHandshake listener(4, kSecret, nonce_of(2));
  Editor editor(in);
  const bool hello = editor.carry(dialer, listener, 0);
  const bool challenge = editor.carry(listener, dialer, 1);
  const bool proof = editor.carry(dialer, listener, 2);
  listener.accept();
  const bool welcome = editor.carry(listener, dialer, 3);
  const bool listener_lied_to = hello || challenge || proof;
  must((listener.state() == HandshakeState::agreed) == !listener_lied_to,
       "the listener and an edited conversation");
  must((dialer.state() == HandshakeState::agreed) == !(listener_lied_to || welcome),
       "the dialer and an edited conversation");
}

void decode(Octets in) {
  if (const auto hello = decode_hello(in)) {
    const Message again = encode_hello({}, 0, *hello);
    must(std::equal(in.begin(), in.end(), again.begin() + kHandshakeHeader, again.end()),
         "a HELLO has two forms");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Octets rest(data + 2, size - 2);
  const size_t piece = size_t{1} + data[1];
  if (data[0] == 'l') listen_to(rest, piece);
  if (data[0] == 'd') dial_into(rest, piece);
  if (data[0] == 'e') edit(rest);
  if (data[0] == 'h') decode(rest);
  return 0;
}
