// How a process makes links: dialling, admitting, and hearing of rails that went and came back.
#include <errno.h>

#include <algorithm>

#include "transport/base/events.h"
#include "transport/base/log.h"
#include "transport/session/process.h"
#include "transport/session/random.h"
#include "transport/tcp/tcp_link.h"

namespace megascale {
namespace {

// For one attempt to connect. The kernel repeats a lost SYN only after a second, so a flap's attempts are
// shorter than that: the path may come back at any time. Every fourth is longer, for a path whose round trip
// is.
constexpr Duration kDialFirst = 3s, kDialAgain = 400ms, kDialPatiently = 1500ms;
constexpr Duration kHandshake = 2500ms;  // after that
constexpr Duration kAdmitWithin = 5s;
constexpr std::size_t kStrangersAtOnce = 256;
constexpr int kRefusalsBelieved =
    3;  // a host that refuses so often, over so long, has no such process any more
constexpr Duration kRefusalsOver = 100ms;

HandshakeAddress said(const tcp::Address& a) {
  HandshakeAddress h;
  h.family = a.is_v4() ? 4 : 6;
  std::copy_n(a.bytes(), a.size(), h.bytes.begin());
  return h;
}

tcp::Address heard(const HandshakeAddress& h, uint16_t port) {
  return h.family == 4 ? tcp::Address::v4(h.bytes.data(), port) : tcp::Address::v6(h.bytes.data(), port);
}

}  // namespace

// ---- dialling ----

HelloFields Process::hello_for(const Endpoint& e, Purpose purpose, Epoch epoch, int rail) const {
  HelloFields h;
  h.purpose = purpose;
  h.incarnation = incarnation_;
  h.connection_id = e.peer().listener;
  h.connection_nonce = e.peer().nonce;
  h.expected_incarnation = e.peer().incarnation;
  h.instance = e.peer().instance;
  h.epoch = epoch;
  h.rail = static_cast<uint16_t>(rail);
  h.listener_port = port_;
  for (const auto& r : rails_)
    if (h.address_count < kMaxAddresses) h.addresses[h.address_count++] = said(r.address);
  return h;
}

void Process::dial(Endpoint& e, int way, Epoch epoch, Purpose purpose, Time t) {
  const Way& w = e.ways().at(static_cast<std::size_t>(way));
  const auto& rail = rails_[static_cast<std::size_t>(w.rail)];
  Nonce nonce;
  auto random = random_bytes(nonce);
  Result<tcp::Socket> s = random ? tcp::begin_connect(rail, w.to, tuning_) : random.error();
  if (rail_states_[static_cast<std::size_t>(w.rail)] != tcp::RailState::up && !rail.address.loopback())
    s = Error{Code::system, "rail " + rail.name + " is down"};
  if (!s) {
    if (purpose == Purpose::probe) return;
    Entered in(e);
    e.sender()->dial_failed(way, epoch, Cause::unreachable, s.error().message, t);
    return;
  }
  bool first;
  {
    Entered in(e);
    first = e.connection().state() == Connection::State::connecting;
  }
  auto handshake =
      std::make_unique<DialerHandshake>(hello_for(e, purpose, epoch, w.rail), settings_.secret, nonce);
  Talk talk(std::move(s).value(), std::move(handshake),
            t + (first            ? kDialFirst
                 : epoch % 4 == 3 ? kDialPatiently
                                  : kDialAgain));
  auto o = std::make_unique<Outgoing>(this, std::move(talk), e.id(), way, epoch, purpose);
  if (purpose == Purpose::probe) e.checks_under_way_++;
  watch(o->talk.fd(), o.get(), true, true);
  outgoing_.push_back(std::move(o));
}

void Process::pump(Outgoing& o, Time t) {
  if (o.done) return;
  auto outcome = o.talk.pump();
  if (outcome == Talk::Outcome::talking) {
    // Connected: the other end may be slow to get a CPU, which is no reason to begin anew.
    if (!o.talk.wants_out() && !o.connected) o.talk.not_before(t + kHandshake);
    o.connected |= !o.talk.wants_out();
    watch(o.talk.fd(), &o, o.talk.wants_out(), true);
    return;
  }
  finished(o, outcome, t);
}

void Process::finished(Outgoing& o, Talk::Outcome outcome, Time t) {
  o.done = true;
  Endpoint* e = find(o.endpoint);
  if (!e) return;
  const auto& rail = rails_[static_cast<std::size_t>(e->ways()[static_cast<std::size_t>(o.path)].rail)];
  if (outcome == Talk::Outcome::agreed) {
    e->refusals_ = 0;
    e->proven_ |= 1u << o.path;
    if (o.purpose == Purpose::probe) return;
    unwatch(o.talk.fd());
    int fd = o.talk.take_socket().release();
    std::string what = "tcp " + tcp::local_address(fd).text() + " -> " +
                       e->ways()[static_cast<std::size_t>(o.path)].to.text_with_port() + " (" + rail.name +
                       ")";
    auto link = std::make_unique<tcp::TcpLink>(fd, tcp::Side::sends, settings_.flap_detect,
                                               statistics_for(rail.name), std::move(what));
    Entered in(*e);
    e->sender()->dialled(o.path, o.epoch, std::move(link), t);
    e->connection().progress(t);
    arm(*e);
    return;
  }
  if (outcome == Talk::Outcome::refused) return turned_down(*e, o, o.talk.handshake().refusal(), t);
  bool refused = outcome == Talk::Outcome::failed && o.talk.error() == ECONNREFUSED;
  std::string why = outcome == Talk::Outcome::failed   ? strerror(o.talk.error())
                    : outcome == Talk::Outcome::closed ? "the handshake was cut off"
                                                       : "no answer in time";
  if (o.purpose == Purpose::link) {
    Entered in(*e);
    e->sender()->dial_failed(o.path, o.epoch, refused ? Cause::refused : Cause::unreachable, why, t);
  }
  if (refused) refused_by_host(*e, o.path, t);
}

// The peer's process answered, and does not want us.
void Process::turned_down(Endpoint& e, const Outgoing& o, const Refusal& r, Time t) {
  Entered in(e);
  std::string sentence(r.sentence());
  bool gone = r.proved && (r.reason == RefusalReason::unknown_connection ||
                           r.reason == RefusalReason::stale_incarnation || r.reason == RefusalReason::closed);
  if (gone) return e.connection().peer_gone(sentence, t);
  bool hopeless = r.reason != RefusalReason::too_many && r.reason != RefusalReason::stale_epoch &&
                  r.reason != RefusalReason::stranger && r.reason != RefusalReason::malformed;
  if (hopeless && e.connection().state() == Connection::State::connecting)
    return e.connection().fail(
        {Code::invalid_usage, "connecting to the peer " + e.connection().peer() + ": " + sentence}, t);
  if (o.purpose == Purpose::link) e.sender()->dial_failed(o.path, o.epoch, Cause::refused, sentence, t);
}

// The host answers, nobody listens. Once may be a filter that comes and goes; several times is a process that
// ended.
void Process::refused_by_host(Endpoint& e, int way, Time t) {
  // Networks of the same private addresses exist on many hosts: who refuses there need not be the peer's
  // host.
  if (e.proven_ && !(e.proven_ >> way & 1)) return;
  if (e.refusals_++ == 0) e.refused_since_ = t;
  if (e.refusals_ < kRefusalsBelieved || t - e.refused_since_ < kRefusalsOver) return;
  Entered in(e);
  e.connection().peer_gone("its host answers, but the process does not exist any more", t);
}

// ---- admitting ----

void Process::accept_strangers(Time t) {
  int error = 0;
  for (int i = 0; i < 64; i++) {
    sockaddr_storage a{};
    socklen_t n = sizeof a;
    tcp::Socket s(
        accept4(listening_.fd(), reinterpret_cast<sockaddr*>(&a), &n, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!s) {
      error = errno;
      break;
    }
    tcp::Address here = tcp::local_address(s.fd());
    auto rail =
        std::find_if(rails_.begin(), rails_.end(), [&](const auto& r) { return r.address.same_host(here); });
    if (rail == rails_.end()) {  // not one of our rails
      count(statistics_for(rails_[0].name).handshakes_refused);
      continue;
    }
    make_room_for_strangers();
    tcp::tune(s.fd(), tuning_);
    Nonce nonce;
    if (!random_bytes(nonce)) continue;
    auto handshake = std::make_unique<ListenerHandshake>(incarnation_, settings_.secret, nonce);
    Talk talk(std::move(s), std::move(handshake), t + kAdmitWithin);
    auto from = tcp::Address::from(reinterpret_cast<sockaddr*>(&a));
    auto in =
        std::make_unique<Incoming>(this, std::move(talk), static_cast<int>(rail - rails_.begin()), from);
    watch(in->talk.fd(), in.get(), false, true);
    incoming_.push_back(std::move(in));
  }
  // Without descriptors the queue cannot be emptied and would wake us forever: it is looked at again at the
  // next tick.
  listening_rests_ = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!listening_rests_) watch(listening_.fd(), &on_listen_, false, true);
}

// A peer says its lines within milliseconds, so of too many strangers it is the oldest that goes.
void Process::make_room_for_strangers() {
  if (incoming_.size() < kStrangersAtOnce) return;
  Incoming& oldest = *incoming_[incoming_.size() - kStrangersAtOnce];
  if (oldest.done) return;
  count(statistics_for(rails_[static_cast<std::size_t>(oldest.rail)].name).handshakes_refused);
  oldest.done = true;  // freed when this round of events is over
}

void Process::pump(Incoming& i, Time t) {
  if (i.done) return;
  auto outcome = i.talk.pump();
  if (outcome == Talk::Outcome::deciding) {
    decide(i, t);
    outcome = i.talk.pump();
  }
  switch (outcome) {
    case Talk::Outcome::deciding:
    case Talk::Outcome::talking:
      watch(i.talk.fd(), &i, i.talk.wants_out(), true);
      return;
    case Talk::Outcome::agreed:
      hand_over(i, t);
      break;
    case Talk::Outcome::refused:
      count_refusal(i.rail, i.talk.handshake().refusal(), i.from);
      break;
    default:
      count(statistics_for(rails_[static_cast<std::size_t>(i.rail)].name).handshakes_refused);
  }
  i.done = true;
}

void Process::count_refusal(int rail, const Refusal& r, const tcp::Address& from) {
  auto& statistics = statistics_for(rails_[static_cast<std::size_t>(rail)].name);
  count(statistics.handshakes_refused);
  if (r.reason != RefusalReason::stranger && r.reason < RefusalReason::unknown_connection)
    logf(Level::warn, "refused a connection from %s on rail %s: %s", from.text_with_port().c_str(),
         statistics.name.c_str(), r.sentence().c_str());
  Event("refused")
      .with("rail", statistics.name)
      .with("from", from.text())
      .with("reason", name_of(r.reason))
      .emit();
}

void Process::decide(Incoming& i, Time t) {
  auto& handshake = static_cast<ListenerHandshake&>(i.talk.handshake());
  RefusalReason reason = admit(i, handshake.hello(), t);
  if (reason == RefusalReason::none) handshake.accept();
  else handshake.refuse(reason);
}

// The end of the connection that a peer means.
Endpoint* Process::find(const HelloFields& h) {
  const bool probe = h.purpose == Purpose::probe;
  std::lock_guard lock(mutex_);
  for (auto& [id, e] : endpoints_) {
    const PeerIdentity& p = e->peer();
    if (p.listener == h.connection_id && p.nonce == h.connection_nonce && p.instance == h.instance &&
        p.incarnation == h.incarnation && (e->sender() != nullptr) == probe)
      return e.get();
  }
  return nullptr;
}

// Whether a peer that proved itself may have what it wants; makes the receiving end of a new connection.
RefusalReason Process::admit(Incoming& i, const HelloFields& h, Time t) {
  if (h.expected_incarnation != incarnation_) return RefusalReason::stale_incarnation;
  const bool probe = h.purpose == Purpose::probe;
  if (Endpoint* e = find(h)) {
    Entered in(*e);
    auto state = e->connection().state();
    bool over = state == Connection::State::failed || state == Connection::State::closed;
    // One whose caller is done with it may still owe last words: it lives for who asks after it.
    if (over) return RefusalReason::closed;
    // A receiver asks when it has no link. A sender with nothing to say would never learn of it.
    if (probe) {
      e->sender()->lost_there(h.epoch, t);
      e->connection().progress(t);
    }
    i.endpoint = e->id();
    return RefusalReason::none;
  }
  std::lock_guard lock(mutex_);
  auto l = listeners_.find(h.connection_id);
  if (probe || l == listeners_.end() || l->second.nonce != h.connection_nonce)
    return RefusalReason::unknown_connection;
  // A connection that was here and has ended does not begin anew, with its messages half way.
  if (!l->second.admitted.emplace(h.incarnation, h.instance).second) return RefusalReason::closed;
  PeerIdentity peer{h.incarnation, {}, h.connection_id, h.connection_nonce, h.incarnation, h.instance};
  std::vector<Way> ways;
  for (const auto& a : h.own_addresses()) {
    auto there = heard(a, h.listener_port);
    peer.addresses.push_back(there);
    auto near = std::find_if(rails_.begin(), rails_.end(),
                             [&](const auto& r) { return there.same_subnet(r.address, r.prefix); });
    // On a routed fabric no subnet is shared: then it is the rail of the same number.
    std::size_t r = near != rails_.end() ? static_cast<std::size_t>(near - rails_.begin())
                                         : (peer.addresses.size() - 1) % rails_.size();
    if (near != rails_.end() || rails_[r].address.family() == there.family())
      ways.push_back({static_cast<int>(r), there});
  }
  if (peer.addresses.empty()) return RefusalReason::malformed;
  if (ways.empty()) ways.push_back({i.rail, peer.addresses[0]});
  uint64_t id = next_id_++;
  auto made = std::make_unique<Endpoint>(*this, id, l->second.owner, std::move(peer),
                                         options(static_cast<int>(l->second.homes.size())), std::move(ways),
                                         std::vector<Path>{});
  endpoints_[id] = std::move(made);
  i.endpoint = id;
  l->second.arrived.push_back(id);
  return RefusalReason::none;
}

void Process::hand_over(Incoming& i, Time t) {
  const auto& h = static_cast<ListenerHandshake&>(i.talk.handshake()).hello();
  if (h.purpose == Purpose::probe) return;
  Endpoint* e = find(i.endpoint);
  if (!e || !e->receiver()) return;
  const auto& rail = rails_[static_cast<std::size_t>(i.rail)];
  unwatch(i.talk.fd());
  int fd = i.talk.take_socket().release();
  Path path{rail.name, rail.name + " " + rail.address.text() + " <- " + i.from.text()};
  std::string what = "tcp " + rail.address.text() + " <- " + i.from.text_with_port() + " (" + rail.name + ")";
  auto link = std::make_unique<tcp::TcpLink>(fd, tcp::Side::receives, settings_.flap_detect,
                                             statistics_for(rail.name), std::move(what));
  Entered in(*e);
  e->refusals_ = 0;
  for (std::size_t w = 0; w < e->ways().size(); w++)
    if (e->ways()[w].to.same_host(i.from)) e->proven_ |= 1u << w;
  e->receiver()->accepted(std::move(link), h.epoch, path, t);
  e->connection().progress(t);
  arm(*e);
}

// ---- rails ----

void Process::read_netlink(Time t) {
  bool any = false;
  bool lost = netlink_.read([&](const tcp::Netlink::News& n) {
    for (const auto& r : rails_) any |= n.ifindex == r.ifindex || n.interface == r.interface;
  });
  if (!any && !lost) return;
  for (std::size_t i = 0; i < rails_.size(); i++) {
    auto state = tcp::state_of(rails_[i]);
    if (state != rail_states_[i]) rail_changed(i, state, t);
  }
}

void Process::rail_changed(std::size_t i, tcp::RailState state, Time t) {
  rail_states_[i] = state;
  const auto& rail = rails_[i];
  bool up = state == tcp::RailState::up;
  Cause cause = state == tcp::RailState::interface_gone ? Cause::interface_gone : Cause::address_gone;
  logf(Level::info, "rail %s (%s): %s", rail.name.c_str(), rail.address.text().c_str(),
       up ? "is back" : to_string(cause));
  Event(up ? "rail_up" : "rail_down")
      .with("rail", rail.name)
      .with("cause", up ? "returned" : to_string(cause))
      .emit();
  for (Endpoint* e : all()) {
    Entered in(*e);
    if (up) e->connection().rail_returned(rail.name, t);
    else e->connection().rail_lost(rail.name, cause, t);
    e->connection().progress(t);
  }
}

}  // namespace megascale
