// Who is let in: peers with the same secret, plugin and version; everybody else is refused, cheaply, counted,
// and told why when they are worth a word.
#include <poll.h>
#include <sys/resource.h>

#include "tests/unit/transport/session/process_pair.h"
#include "transport/session/random.h"

namespace megascale {
namespace {

Settings with_secret(const std::string& secret) {
  Settings s = on_loopback("127.0.0.1");
  s.secret = secret;
  return s;
}

uint64_t refused_on(const Process& p) { return statistics_for(p.rails()[0].name).handshakes_refused; }

// A bare socket to the port that a handle names.
tcp::Socket reach(uint16_t port) {
  tcp::Socket s(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!s || connect(s.fd(), reinterpret_cast<sockaddr*>(&to), sizeof to))
    throw std::runtime_error(strerror(errno));
  return s;
}

// Whether the other end has hung up, after whatever it said.
bool hung_up(int fd) {
  char bytes[1024];
  for (;;) {
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return true;
    if (n < 0) return false;
  }
}

HelloFields hello_for(const Handle& h) {
  HelloFields f;
  f.incarnation = 0xabcdef;
  f.connection_id = h.listener;
  f.connection_nonce = h.nonce;
  f.expected_incarnation = h.incarnation;
  f.instance = 1;
  f.epoch = 1;
  f.address_count = 1;
  f.addresses[0] = {4, {127, 0, 0, 1}};
  f.listener_port = 9;
  return f;
}

Nonce fresh_nonce() {
  Nonce n;
  if (!random_bytes(n)) throw std::runtime_error("no random numbers");
  return n;
}

// A dialler by hand, on a blocking socket; keeps what it said.
struct Dialler {
  DialerHandshake handshake;
  tcp::Socket socket;
  std::vector<std::vector<uint8_t>> said;

  Dialler(const Handle& h, const std::string& secret, const HandshakeIdentity& id = {})
      : handshake(hello_for(h), secret, fresh_nonce(), id), socket(reach(h.port)) {}

  HandshakeState talk() {
    while (handshake.state() == HandshakeState::talking || !handshake.outgoing().empty()) {
      auto out = handshake.outgoing();
      if (!out.empty()) {
        said.emplace_back(out.begin(), out.end());
        if (send(socket.fd(), out.data(), out.size(), MSG_NOSIGNAL) < 0) break;
        handshake.consume_out(out.size());
        continue;
      }
      uint8_t bytes[600];
      ssize_t n = recv(socket.fd(), bytes, sizeof bytes, 0);
      if (n <= 0) break;
      handshake.feed({bytes, static_cast<size_t>(n)});
    }
    return handshake.state();
  }
};

struct Host {
  std::unique_ptr<Process> process;
  HandleBytes handle;
  uint64_t listener;
  explicit Host(const Settings& s)
      : process(start(s)), listener(process->listen({0}, process.get(), handle.get())) {}
};

// ---- secrets

void expect_refused(const std::string& here, const std::string& there, const std::string& words) {
  Logged log;
  Host host(with_secret(there));
  uint64_t before = refused_on(*host.process);
  auto from = start(with_secret(here));
  Endpoint* e = from->connect(host.handle.read(), {0}, nullptr);
  ASSERT_TRUE(e);
  ASSERT_TRUE(eventually([&] { return state_of(e) != Connection::State::connecting; }));
  EXPECT_EQ(state_of(e), Connection::State::failed);
  for (const std::string& w : {words, std::string("MEGASCALE_SECRET"), std::string("process ")})
    EXPECT_NE(error_of(e).find(w), std::string::npos) << error_of(e) << "\ndoes not say: " << w;
  EXPECT_TRUE(eventually([&] { return refused_on(*host.process) > before; }));
  EXPECT_TRUE(eventually([&] { return log.has("refused a connection from 127.0.0.1"); })) << log.all();
  EXPECT_EQ(host.process->accept(host.listener), nullptr);
  EXPECT_FALSE(log.has(here.empty() ? "sesame" : here)) << "a secret was printed";
  EXPECT_FALSE(log.has(there.empty() ? "sesame" : there)) << "a secret was printed";
}

TEST(Strangers, AWrongSecretIsRefusedAndBothEndsSayWhy) {
  expect_refused("open sesame 1", "open sesame 2", "do not have the same job secret");
}
TEST(Strangers, ASecretAtTheListenerOnlyIsRefused) {
  expect_refused("", "open sesame", "the one that dials has none");
}
TEST(Strangers, ASecretAtTheDiallerOnlyIsRefused) {
  expect_refused("open sesame", "", "the one that listens has none");
}
TEST(Strangers, TheSameSecretIsLetIn) {
  auto a = start(with_secret("open sesame")), b = start(with_secret("open sesame"));
  Joined w = joined(*a, *b);
  EXPECT_EQ(carry(w, {5, 50'000}), "");
}

// ---- versions and plugins

TEST(Strangers, AnotherVersionIsRefusedWithBothVersions) {
  Logged log;
  Host host(with_secret("s"));
  Dialler d(host.handle.read(), "s", {.version = kProtocolVersion + 1});
  EXPECT_EQ(d.talk(), HandshakeState::refused);
  EXPECT_NE(d.handshake.refusal().sentence().find("version"), std::string::npos)
      << d.handshake.refusal().sentence();
  EXPECT_TRUE(eventually([&] { return log.has("speaks protocol version 2, this one 1"); })) << log.all();
}

TEST(Strangers, AnotherPluginIsRefused) {
  Logged log;
  Host host(with_secret("s"));
  Dialler d(host.handle.read(), "s", {.plugin_id = 0x1234});
  EXPECT_EQ(d.talk(), HandshakeState::refused);
  EXPECT_TRUE(eventually([&] { return log.has("another plugin"); })) << log.all();
}

// The other way about: who listens at the handle's address is of another version, and our connect says so.
TEST(Strangers, AListenerOfAnotherVersionFailsTheConnectWithASentence) {
  Logged log;
  Settings s = with_secret("s");
  auto from = start(s);
  uint16_t port = 0;
  auto listening = tcp::listen_everywhere(port);
  ASSERT_TRUE(listening);
  Handle h{.port = port,
           .listener = 1,
           .nonce = 2,
           .incarnation = 3,
           .homes = 1,
           .addresses = {*tcp::Address::parse("127.0.0.1")}};
  h.addresses[0].set_port(port);
  Endpoint* e = from->connect(h, {0}, nullptr);
  ASSERT_TRUE(e);
  int fd = -1;
  ASSERT_TRUE(eventually(
      [&] { return (fd = accept4(listening->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0; }));
  Talk talk(tcp::Socket(fd),
            std::make_unique<ListenerHandshake>(3, "s", fresh_nonce(), HandshakeIdentity{.version = 9}),
            kNever);
  ASSERT_TRUE(eventually([&] { return talk.pump(), state_of(e) != Connection::State::connecting; }));
  EXPECT_NE(error_of(e).find("version 9"), std::string::npos) << error_of(e);
}

// ---- who only pretends

TEST(Strangers, AReplayedConversationIsRefused) {
  Logged log;
  Host host(with_secret("s"));
  Dialler good(host.handle.read(), "s");
  ASSERT_EQ(good.talk(), HandshakeState::agreed);
  ASSERT_EQ(good.said.size(), 2u) << "a HELLO and a PROOF";
  uint64_t before = refused_on(*host.process);
  tcp::Socket again = reach(host.handle.read().port);
  for (auto& message : good.said) {
    ASSERT_EQ(send(again.fd(), message.data(), message.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(message.size()));
  }
  EXPECT_TRUE(eventually([&] { return hung_up(again.fd()); }));
  EXPECT_TRUE(eventually([&] { return refused_on(*host.process) == before + 1; }));
  EXPECT_TRUE(log.has("an old conversation was played again")) << log.all();
}

TEST(Strangers, AProvedDiallerWithoutAConnectionIsToldSo) {
  Host host(with_secret("s"));
  Handle h = host.handle.read();
  h.nonce ^= 1;
  Dialler d(h, "s");
  EXPECT_EQ(d.talk(), HandshakeState::refused);
  EXPECT_EQ(d.handshake.refusal().reason, RefusalReason::unknown_connection);
  EXPECT_TRUE(d.handshake.refusal().proved);
  h = host.handle.read();
  h.incarnation ^= 1ull << 40;
  Dialler e(h, "s");
  EXPECT_EQ(e.talk(), HandshakeState::refused);
  EXPECT_EQ(e.handshake.refusal().reason, RefusalReason::stale_incarnation);
}

TEST(Strangers, GarbageIsRefusedAndCounted) {
  Host host(with_secret("s"));
  uint64_t before = refused_on(*host.process);
  for (int i = 0; i < 20; i++) {
    tcp::Socket s = reach(host.handle.read().port);
    std::string garbage =
        i % 2 ? "GET / HTTP/1.1\r\nHost: x\r\n\r\n" : std::string(2000, static_cast<char>(i));
    ASSERT_EQ(send(s.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(garbage.size()));
    ASSERT_TRUE(eventually([&] { return hung_up(s.fd()); }));
  }
  EXPECT_TRUE(eventually([&] { return refused_on(*host.process) == before + 20; }))
      << refused_on(*host.process) - before;
}

// Every byte of a good HELLO, spoiled: refused or, where the byte means nothing yet, waited for; no crash,
// and the next good peer gets in.
TEST(Strangers, ASpoiledHelloLetsNobodyIn) {
  Host host(with_secret("s"));
  Logged log;
  DialerHandshake good(hello_for(host.handle.read()), "s", fresh_nonce());
  const std::vector<uint8_t> hello(good.outgoing().begin(), good.outgoing().end());
  for (std::size_t at = 0; at < hello.size(); at += 3) {
    tcp::Socket s = reach(host.handle.read().port);
    auto bytes = hello;
    bytes[at] ^= 0xff;
    ASSERT_GT(send(s.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    std::vector<uint8_t> proof(64, 0x5a);  // whatever it is, it proves nothing
    (void)!send(s.fd(), proof.data(), proof.size(), MSG_NOSIGNAL);
  }
  Dialler d(host.handle.read(), "s");
  EXPECT_EQ(d.talk(), HandshakeState::agreed);
}

void allow_many_descriptors() {
  rlimit r{};
  getrlimit(RLIMIT_NOFILE, &r);
  r.rlim_cur = std::min<rlim_t>(r.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &r);
}

// More silent strangers than are served at once must not keep the real peer waiting until they time out.
TEST(Strangers, ThreeHundredAtOnceDoNotStopARealPeer) {
  allow_many_descriptors();
  Host host(with_secret("s"));
  auto from = start(with_secret("s"));
  uint64_t before = refused_on(*host.process);
  std::vector<tcp::Socket> crowd;
  for (int i = 0; i < 300; i++) crowd.push_back(reach(host.handle.read().port));
  Time begun = now();
  Joined w = joined_by(*from, *host.process, host.listener, host.handle);
  auto took = seconds(now() - begun);
  EXPECT_FALSE(std::all_of(crowd.begin(), crowd.end(), [](auto& s) { return hung_up(s.fd()); }))
      << "it had to wait until all of them were timed out";
  EXPECT_EQ(carry(w, {1000, 100'000}), "");
  std::cout << "the real peer was connected after " << took * 1e3 << " ms\n";
  EXPECT_GE(refused_on(*host.process), before + 44);
  EXPECT_TRUE(eventually([&] {
    return std::all_of(crowd.begin(), crowd.end(), [](auto& s) { return hung_up(s.fd()); });
  })) << "silent strangers are let go in the end";
  EXPECT_EQ(refused_on(*host.process), before + 300);
}

TEST(Strangers, ASlowOneIsTimedOut) {
  Host host(with_secret("s"));
  DialerHandshake good(hello_for(host.handle.read()), "s", fresh_nonce());
  const std::vector<uint8_t> hello(good.outgoing().begin(), good.outgoing().end());
  uint64_t before = refused_on(*host.process);
  tcp::Socket s = reach(host.handle.read().port);
  std::size_t sent = 0;
  ASSERT_TRUE(eventually([&] {
    if (sent < hello.size()) sent += send(s.fd(), hello.data() + sent, 1, MSG_NOSIGNAL) > 0;
    std::this_thread::sleep_for(100ms);
    return hung_up(s.fd());
  }));
  EXPECT_LT(sent, hello.size()) << "it was cut off in the middle of its HELLO";
  EXPECT_TRUE(eventually([&] { return refused_on(*host.process) == before + 1; }));
}

// Who knows the secret may still say nonsense on its link: that is the link's end, not the process's.
TEST(Strangers, AnAuthenticatedPeerThatSaysGarbageLosesItsLinkOnly) {
  Logged log;
  Host host(with_secret("s"));
  Dialler d(host.handle.read(), "s");
  ASSERT_EQ(d.talk(), HandshakeState::agreed);
  std::string garbage(1000, 'g');
  ASSERT_GT(send(d.socket.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  EXPECT_TRUE(eventually([&] { return hung_up(d.socket.fd()); }));
  auto from = start(with_secret("s"));
  host.process->accept(host.listener);  // the nonsensical one's
  Joined w = joined_by(*from, *host.process, host.listener, host.handle);
  EXPECT_EQ(carry(w, {1000}), "");
}

}  // namespace
}  // namespace megascale
