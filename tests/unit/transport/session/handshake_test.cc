#include "transport/session/handshake.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "transport/session/random.h"

namespace megascale {
namespace {

using Wire = std::vector<uint8_t>;
constexpr char kSecret[] = "a secret of the job";
constexpr uint64_t kListenerIncarnation = 0x1122334455667788;

Nonce nonce_of(uint8_t seed) {
  Nonce n;
  n.fill(seed);
  return n;
}

HelloFields fields() {
  HelloFields f{.purpose = Purpose::link,
                .incarnation = 0xa1a2a3a4a5a6a7a8,
                .connection_id = 42,
                .connection_nonce = 0x9999,
                .expected_incarnation = kListenerIncarnation,
                .instance = 11,
                .epoch = 7,
                .rail = 3,
                .listener_port = 4567,
                .address_count = 2};
  f.addresses[0] = {4, {10, 0, 0, 1}};
  f.addresses[1] = {6, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return f;
}

// Carries what is outgoing at `from` to `to`, one byte at a time, and keeps a copy.
void carry(Handshake& from, Handshake& to, Wire* copy = nullptr) {
  while (!from.outgoing().empty()) {
    const uint8_t byte = from.outgoing()[0];
    from.consume_out(1);
    if (copy) copy->push_back(byte);
    to.feed({&byte, 1});
  }
}

struct Conversation {
  Wire by_dialer, by_listener;
};

Conversation talk(DialerHandshake& dialer, ListenerHandshake& listener) {
  Conversation c;
  while (!dialer.outgoing().empty() || !listener.outgoing().empty()) {
    carry(dialer, listener, &c.by_dialer);
    if (listener.state() == HandshakeState::deciding) listener.accept();
    carry(listener, dialer, &c.by_listener);
  }
  return c;
}

struct Pair {
  explicit Pair(std::string_view dialer_secret = kSecret, std::string_view listener_secret = kSecret)
      : dialer(fields(), dialer_secret, nonce_of(1)),
        listener(kListenerIncarnation, listener_secret, nonce_of(2)) {}
  DialerHandshake dialer;
  ListenerHandshake listener;
};

TEST(Handshake, BothEndsAgreeAndKnowEachOther) {
  Pair p;
  const Conversation c = talk(p.dialer, p.listener);
  EXPECT_EQ(p.dialer.state(), HandshakeState::agreed);
  EXPECT_EQ(p.listener.state(), HandshakeState::agreed);
  EXPECT_EQ(p.listener.hello(), fields());
  EXPECT_EQ(p.dialer.listener_incarnation(), kListenerIncarnation);
  EXPECT_LT(c.by_dialer.size() + c.by_listener.size(), 1024u);
}

TEST(Handshake, WithoutASecretOnEitherSideItIsTheSame) {
  Pair p("", "");
  talk(p.dialer, p.listener);
  EXPECT_EQ(p.dialer.state(), HandshakeState::agreed);
  EXPECT_EQ(p.listener.state(), HandshakeState::agreed);
}

TEST(Handshake, TheLongestHelloIsUnderAKibibyteAllInAll) {
  HelloFields f = fields();
  f.address_count = kMaxAddresses;
  DialerHandshake dialer(f, kSecret, nonce_of(1));
  ListenerHandshake listener(1, kSecret, nonce_of(2));
  const Conversation c = talk(dialer, listener);
  EXPECT_EQ(listener.hello(), f);
  EXPECT_LT(c.by_dialer.size() + c.by_listener.size(), 600u);
}

TEST(Handshake, TheSecretIsNotOnTheWire) {
  Pair p;
  const Conversation c = talk(p.dialer, p.listener);
  for (const Wire& wire : {c.by_dialer, c.by_listener}) {
    EXPECT_EQ(std::string(wire.begin(), wire.end()).find("secret"), std::string::npos);
  }
}

TEST(Handshake, NeverTakesAByteBehindItsEnd) {
  Pair p;
  Wire out(p.dialer.outgoing().begin(), p.dialer.outgoing().end());
  p.dialer.consume_out(out.size());
  EXPECT_EQ(p.listener.feed(out), out.size());
  out.assign(p.listener.outgoing().begin(), p.listener.outgoing().end());
  p.listener.consume_out(out.size());
  EXPECT_EQ(p.dialer.feed(out), out.size());

  out.assign(p.dialer.outgoing().begin(), p.dialer.outgoing().end());
  const size_t proof = out.size();
  out.insert(out.end(), {'d', 'a', 't', 'a'});
  EXPECT_EQ(p.listener.feed(out), proof);
  EXPECT_EQ(p.listener.feed(Wire{'d', 'a', 't', 'a'}), 0u) << "while deciding";
  p.listener.accept();
  EXPECT_EQ(p.listener.feed(Wire{'d', 'a', 't', 'a'}), 0u) << "after it";

  out.assign(p.listener.outgoing().begin(), p.listener.outgoing().end());
  const size_t welcome = out.size();
  out.insert(out.end(), {'d', 'a', 't', 'a'});
  EXPECT_EQ(p.dialer.feed(out), welcome);
  EXPECT_EQ(p.dialer.feed(Wire{'d', 'a', 't', 'a'}), 0u);
}

TEST(Handshake, AWrongSecretIsRefusedByTheDialerAndTheListenerHearsOfIt) {
  Pair p("one secret", "another secret");
  talk(p.dialer, p.listener);
  EXPECT_EQ(p.dialer.state(), HandshakeState::refused);
  EXPECT_EQ(p.dialer.refusal().reason, RefusalReason::wrong_secret);
  EXPECT_FALSE(p.dialer.refusal().by_peer);
  EXPECT_EQ(p.listener.state(), HandshakeState::refused);
  EXPECT_EQ(p.listener.refusal().reason, RefusalReason::wrong_secret);
  EXPECT_TRUE(p.listener.refusal().by_peer);
}

TEST(Handshake, ADialerThatOnlyPretendsToKnowTheSecretIsRefused) {
  Pair p;
  carry(p.dialer, p.listener);
  p.listener.consume_out(p.listener.outgoing().size());
  const Wire forged = encode_proof({}, kHasSecret, MessageType::proof, sha256(bytes_of("guess")));
  p.listener.feed(forged);
  EXPECT_EQ(p.listener.state(), HandshakeState::refused);
  EXPECT_EQ(p.listener.refusal().reason, RefusalReason::wrong_secret);
}

TEST(Handshake, ASecretOnOneSideOnlyIsSaidToBothAndWhichSide) {
  {
    Pair p("", kSecret);
    talk(p.dialer, p.listener);
    EXPECT_EQ(p.listener.refusal().reason, RefusalReason::dialer_without_secret);
    EXPECT_EQ(p.dialer.refusal().reason, RefusalReason::dialer_without_secret);
    EXPECT_TRUE(p.dialer.refusal().by_peer);
  }
  {
    Pair p(kSecret, "");
    talk(p.dialer, p.listener);
    EXPECT_EQ(p.listener.refusal().reason, RefusalReason::listener_without_secret);
    EXPECT_EQ(p.dialer.refusal().reason, RefusalReason::listener_without_secret);
    EXPECT_NE(p.dialer.refusal().sentence().find("MEGASCALE_SECRET"), std::string::npos);
  }
}

TEST(Handshake, WhoeverPosesAsAListenerWithoutASecretIsRefusedByADialerWithOne) {
  DialerHandshake dialer(fields(), kSecret, nonce_of(1));
  const Nonce nonce = nonce_of(9);
  dialer.feed(encode_challenge({}, 0, {1, nonce, {}}));
  EXPECT_EQ(dialer.refusal().reason, RefusalReason::listener_without_secret);
  EXPECT_FALSE(dialer.refusal().by_peer);
}

TEST(Handshake, AnotherVersionIsNamedOnBothSides) {
  DialerHandshake dialer(fields(), kSecret, nonce_of(1), {.version = 9});
  ListenerHandshake listener(1, kSecret, nonce_of(2));
  talk(dialer, listener);
  EXPECT_EQ(listener.refusal().reason, RefusalReason::version);
  EXPECT_EQ(dialer.refusal().reason, RefusalReason::version);
  EXPECT_TRUE(dialer.refusal().by_peer);
  EXPECT_EQ(dialer.refusal().theirs.version, kProtocolVersion);
  EXPECT_NE(listener.refusal().sentence().find("version 9, this one 1"), std::string::npos)
      << listener.refusal().sentence();
  EXPECT_NE(dialer.refusal().sentence().find("version 1, this one 9"), std::string::npos)
      << dialer.refusal().sentence();
}

TEST(Handshake, AnotherPluginIsNamedOnBothSides) {
  DialerHandshake dialer(fields(), kSecret, nonce_of(1), {.plugin_id = 0xbeef});
  ListenerHandshake listener(1, kSecret, nonce_of(2));
  talk(dialer, listener);
  EXPECT_EQ(listener.refusal().reason, RefusalReason::plugin_id);
  EXPECT_EQ(dialer.refusal().reason, RefusalReason::plugin_id);
  EXPECT_NE(listener.refusal().sentence().find("0xbeef"), std::string::npos) << listener.refusal().sentence();
}

TEST(Handshake, OfARefusalOfAnotherVersionOnlyTheReasonIsRead) {
  DialerHandshake dialer(fields(), kSecret, nonce_of(1));
  Wire refuse = encode_refuse({.version = 2}, 0, 77, {});
  refuse.push_back(0);  // that version's is longer
  refuse[12] = static_cast<uint8_t>(refuse[12] + 1);
  EXPECT_EQ(dialer.feed(refuse), refuse.size());
  EXPECT_EQ(dialer.refusal().reason, RefusalReason::version);
  EXPECT_EQ(dialer.refusal().theirs.version, 2);
}

TEST(Handshake, StrangersAreDroppedAtTheirFirstWrongByteWithoutAnAnswer) {
  for (const std::string text : {"GET / HTTP/1.1\r\n", "MGSX", "M\x01", "\x16\x03\x01", "SSH-2.0-x"}) {
    ListenerHandshake listener(1, kSecret, nonce_of(2));
    EXPECT_LE(listener.feed(bytes_of(text)), kHandshakeHeader);
    EXPECT_EQ(listener.state(), HandshakeState::refused) << text;
    EXPECT_EQ(listener.refusal().reason, RefusalReason::stranger) << text;
    EXPECT_TRUE(listener.outgoing().empty()) << text;
    DialerHandshake dialer(fields(), kSecret, nonce_of(1));
    dialer.feed(bytes_of(text));
    EXPECT_EQ(dialer.refusal().reason, RefusalReason::stranger) << text;
  }
}

TEST(Handshake, AReplayedDialerIsRefused) {
  for (const char* secret : {kSecret, ""}) {
    Pair first(secret, secret);
    const Conversation recorded = talk(first.dialer, first.listener);
    ASSERT_EQ(first.listener.state(), HandshakeState::agreed);

    ListenerHandshake again(kListenerIncarnation, secret, nonce_of(3));
    again.feed(recorded.by_dialer);
    EXPECT_EQ(again.state(), HandshakeState::refused);
    EXPECT_EQ(again.refusal().reason, RefusalReason::wrong_secret);
  }
}

TEST(Handshake, AReplayedListenerIsRefused) {
  for (const char* secret : {kSecret, ""}) {
    Pair first(secret, secret);
    const Conversation recorded = talk(first.dialer, first.listener);

    DialerHandshake again(fields(), secret, nonce_of(4));
    again.feed(recorded.by_listener);
    EXPECT_EQ(again.state(), HandshakeState::refused);
    EXPECT_EQ(again.refusal().reason, RefusalReason::wrong_secret);
  }
}

TEST(Handshake, ADialersOwnWordsSentBackAreRefused) {
  DialerHandshake dialer(fields(), kSecret, nonce_of(1));
  const Wire hello(dialer.outgoing().begin(), dialer.outgoing().end());
  dialer.feed(hello);
  EXPECT_EQ(dialer.state(), HandshakeState::refused);
}

TEST(Handshake, WithOneBitFlippedAnywhereTheTwoNeverAgree) {
  Pair good;
  const Conversation c = talk(good.dialer, good.listener);
  const auto meet = [](size_t dialer_bit, size_t listener_bit) {
    Pair p;
    size_t at_dialer = 0, at_listener = 0;
    const auto pass = [](Handshake& from, Handshake& to, size_t& at, size_t flip) {
      while (!from.outgoing().empty()) {
        uint8_t byte = from.outgoing()[0];
        from.consume_out(1);
        if (flip / 8 == at++) byte = static_cast<uint8_t>(byte ^ 1 << flip % 8);
        to.feed({&byte, 1});
      }
    };
    while (!p.dialer.outgoing().empty() || !p.listener.outgoing().empty()) {
      pass(p.dialer, p.listener, at_dialer, dialer_bit);
      if (p.listener.state() == HandshakeState::deciding) p.listener.accept();
      pass(p.listener, p.dialer, at_listener, listener_bit);
    }
    return std::pair(p.dialer.state(), p.listener.state());
  };
  ASSERT_EQ(meet(SIZE_MAX, SIZE_MAX), std::pair(HandshakeState::agreed, HandshakeState::agreed));
  // What the dialer says: neither end may agree.
  for (size_t bit = 0; bit < 8 * c.by_dialer.size(); ++bit) {
    const auto [dialer, listener] = meet(bit, SIZE_MAX);
    EXPECT_NE(listener, HandshakeState::agreed) << "bit " << bit << " of the dialer's";
    EXPECT_NE(dialer, HandshakeState::agreed) << "bit " << bit << " of the dialer's";
  }
  // What the listener says: the dialer, who hears it, may not.
  for (size_t bit = 0; bit < 8 * c.by_listener.size(); ++bit) {
    EXPECT_NE(meet(SIZE_MAX, bit).first, HandshakeState::agreed) << "bit " << bit << " of the listener's";
  }
}

TEST(Handshake, CutShortAtAnyByteItIsNeitherAgreedNorRefused) {
  Pair good;
  const Conversation c = talk(good.dialer, good.listener);
  for (size_t n = 0; n < c.by_dialer.size(); ++n) {
    ListenerHandshake listener(kListenerIncarnation, kSecret, nonce_of(2));
    EXPECT_EQ(listener.feed(Octets(c.by_dialer).first(n)), n);
    EXPECT_EQ(listener.state(), HandshakeState::talking) << n;
  }
  for (size_t n = 0; n < c.by_listener.size(); ++n) {
    DialerHandshake dialer(fields(), kSecret, nonce_of(1));
    EXPECT_EQ(dialer.feed(Octets(c.by_listener).first(n)), n);
    EXPECT_EQ(dialer.state(), HandshakeState::talking) << n;
  }
}

TEST(Handshake, MessagesOutOfOrderAreRefused) {
  const Wire proof = encode_proof({}, kHasSecret, MessageType::proof, {});
  const Wire welcome = encode_proof({}, kHasSecret, MessageType::welcome, {});
  const Wire challenge = encode_challenge({}, kHasSecret, {});
  for (const Wire& message : {proof, welcome, challenge}) {
    ListenerHandshake listener(1, kSecret, nonce_of(2));
    listener.feed(message);
    EXPECT_EQ(listener.refusal().reason, RefusalReason::malformed);
  }
  for (const Wire& message : {proof, welcome}) {
    DialerHandshake dialer(fields(), kSecret, nonce_of(1));
    dialer.feed(message);
    EXPECT_EQ(dialer.refusal().reason, RefusalReason::malformed);
  }
}

TEST(Handshake, HostileSizesAndFieldsAreRefusedAtOnce) {
  const Wire good = encode_hello({}, kHasSecret, {fields(), nonce_of(1)});
  struct Change {
    const char* what;
    size_t at;
    uint8_t value;
  };
  for (const Change& change :
       {Change{"an unknown type", 10, 99}, Change{"an unknown flag", 11, 3}, Change{"a huge size", 13, 0xff},
        Change{"not zero in the header", 14, 1}, Change{"a size under the fixed part", 12, 10},
        Change{"an unknown purpose", 16, 7}, Change{"no purpose", 16, 0},
        Change{"too many addresses", 17, 17}, Change{"fewer addresses than the size says", 17, 1},
        Change{"not zero", 22, 1}, Change{"an unknown family", 96, 5},
        Change{"more than 4 bytes of IPv4", 101, 1}}) {
    Wire bad = good;
    bad[change.at] = change.value;
    ListenerHandshake listener(1, kSecret, nonce_of(2));
    listener.feed(bad);
    EXPECT_EQ(listener.state(), HandshakeState::refused) << change.what;
    EXPECT_EQ(listener.refusal().reason, RefusalReason::malformed) << change.what;
  }
}

TEST(Handshake, TheOwnersRefusalReachesTheDialerWithAProof) {
  for (const auto reason : {RefusalReason::unknown_connection, RefusalReason::stale_incarnation,
                            RefusalReason::stale_epoch, RefusalReason::closed, RefusalReason::too_many}) {
    Pair p;
    carry(p.dialer, p.listener);
    carry(p.listener, p.dialer);
    carry(p.dialer, p.listener);
    ASSERT_EQ(p.listener.state(), HandshakeState::deciding);
    p.listener.refuse(reason);
    carry(p.listener, p.dialer);
    EXPECT_EQ(p.dialer.state(), HandshakeState::refused);
    EXPECT_EQ(p.dialer.refusal().reason, reason);
    EXPECT_TRUE(p.dialer.refusal().by_peer);
    EXPECT_TRUE(p.dialer.refusal().proved);
  }
}

TEST(Handshake, ThatAConnectionIsGoneIsNotBelievedWithoutAProof) {
  for (const auto reason :
       {RefusalReason::unknown_connection, RefusalReason::stale_incarnation, RefusalReason::stale_epoch,
        RefusalReason::closed, RefusalReason::none, RefusalReason(1000)}) {
    Pair p;
    carry(p.dialer, p.listener);
    carry(p.listener, p.dialer);
    p.dialer.feed(encode_refuse({}, kHasSecret, static_cast<uint16_t>(reason), {}));
    EXPECT_EQ(p.dialer.state(), HandshakeState::refused);
    EXPECT_EQ(p.dialer.refusal().reason, RefusalReason::malformed);
    EXPECT_FALSE(p.dialer.refusal().proved);
  }
}

TEST(Handshake, BeforeTheProofTheAnswerIsTheSameForEveryConnection) {
  // Whatever the owner would say of the connection, a dialer that has proved nothing sees the same bytes.
  Wire answers[2];
  for (int known = 0; known < 2; ++known) {
    HelloFields f = fields();
    f.connection_id = 1000 + static_cast<uint64_t>(known);
    ListenerHandshake listener(1, kSecret, nonce_of(2));
    listener.feed(encode_hello({}, kHasSecret, {f, nonce_of(1)}));
    EXPECT_EQ(listener.state(), HandshakeState::talking);
    listener.accept();
    EXPECT_EQ(listener.state(), HandshakeState::talking) << "accepting before the proof does nothing";
    if (known) listener.refuse(RefusalReason::closed);
    else listener.refuse(RefusalReason::unknown_connection);
    EXPECT_EQ(listener.refusal().reason, RefusalReason::too_many);
    const Octets out = listener.outgoing();
    answers[known].assign(out.end() - 52, out.end());
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(Handshake, EveryReasonHasANameAndASentence) {
  std::set<std::string> names, sentences;
  for (const int code : {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19}) {
    const Refusal r{.reason = static_cast<RefusalReason>(code), .by_peer = true};
    names.insert(std::string(name_of(r.reason)));
    sentences.insert(r.sentence());
  }
  EXPECT_EQ(names.size(), 13u);
  EXPECT_EQ(sentences.size(), 13u);
  EXPECT_EQ(name_of(RefusalReason(999)), "unknown");
}

TEST(Handshake, AFieldSurvivesTheWire) {
  HelloFields f = fields();
  f.purpose = Purpose::probe;
  f.epoch = UINT32_MAX;
  f.rail = UINT16_MAX;
  f.address_count = 0;
  f.addresses = {};
  const Wire wire = encode_hello({}, 0, {f, nonce_of(5)});
  const auto hello = decode_hello(Octets(wire).subspan(kHandshakeHeader));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->fields, f);
  EXPECT_EQ(hello->nonce, nonce_of(5));
}

TEST(RandomBytes, AreThereAndDiffer) {
  Nonce a{}, b{};
  ASSERT_TRUE(random_bytes(a).ok());
  ASSERT_TRUE(random_bytes(b).ok());
  EXPECT_NE(a, b);
  EXPECT_TRUE(random_bytes({}).ok());
}

}  // namespace
}  // namespace megascale
