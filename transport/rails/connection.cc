#include "transport/rails/connection.h"

#include <algorithm>

#include "transport/base/events.h"
#include "transport/base/log.h"

namespace megascale {
namespace {
constexpr std::size_t kLinks = 16;
constexpr Duration kCheckEvery = 5ms;
constexpr Duration kPingAtMost = 1s;
constexpr int kViolations = 8;  // of the protocol: then a peer is not worth another link
}  // namespace

const char* to_string(Cause c) {
  switch (c) {
    case Cause::silence:
      return "silence with data owed";
    case Cause::reset:
      return "reset";
    case Cause::closed:
      return "closed by the other end";
    case Cause::interface_gone:
      return "interface down";
    case Cause::address_gone:
      return "address removed";
    case Cause::kernel_error:
      return "kernel gave up";
    case Cause::protocol:
      return "protocol violation";
    case Cause::unreachable:
      return "no answer";
    case Cause::refused:
      return "refused";
  }
  return "?";
}

Connection::Connection(const ConnectionOptions& o, std::string name, std::string peer, Dialer& d)
    : options_(o), name_(std::move(name)), peer_(std::move(peer)), dialer_(d), ping_interval_(o.ping_after) {
  links_.reserve(kLinks);
}

Connection::~Connection() = default;

void Connection::progress(Time now) {
  now_ = now;
  // by index: a callback may drop a link, never add or remove one
  for (std::size_t i = 0; i < links_.size(); i++)
    if (links_[i].link) links_[i].link->poll(*this, now);
  if (state_ == State::failed || state_ == State::closed) {
    sweep();
    next_check_ = links_.empty() ? kNever : now + kCheckEvery;  // fences are still to be confirmed
    return;
  }
  move(now);
  if (now < next_check_) return;
  next_check_ = now + kCheckEvery;
  if (created_ == Time{}) created_ = now;
  for (std::size_t i = 0; i < links_.size(); i++) {
    Attached& a = links_[i];
    if (!a.link || !a.usable()) continue;
    a.link->check(*this, now);
    // Quiet although something is awaited: say a byte, so that the other end's kernel must acknowledge it or
    // be found silent. It backs off, for a slow application is not a broken path.
    if (a.usable() && waiting() && now - std::max(a.heard, a.pinged) > ping_interval_) {
      a.pinged = now;
      ping_interval_ = std::min(ping_interval_ * 2, kPingAtMost);
      say(a, wire::write_ping());
    }
  }
  sweep();
  manage(now);
}

bool Connection::needs_care() const {
  if (state_ == State::failed || state_ == State::closed) return !settled();
  if (waiting() || mending() || state_ == State::connecting || !any_usable()) return true;
  return !std::all_of(links_.begin(), links_.end(), [](const Attached& a) { return a.usable(); });
}

void Connection::sweep() {
  std::erase_if(links_, [](const Attached& a) { return a.fenced; });
}

Connection::Attached* Connection::find(const Link& l) {
  for (auto& a : links_)
    if (a.link.get() == &l) return &a;
  return nullptr;
}

Connection::Attached* Connection::usable_link() {
  for (auto& a : links_)
    if (a.usable()) return &a;
  return nullptr;
}

bool Connection::any_usable() const {
  return std::any_of(links_.begin(), links_.end(), [](const Attached& a) { return a.usable(); });
}

Connection::Attached* Connection::attach(std::unique_ptr<Link> link, Epoch epoch, const Path& p, int path,
                                         Time now) {
  now_ = now;
  sweep();
  if (links_.size() == kLinks) {  // none may be forgotten before its fence: it could still write
    last_trouble_ = std::to_string(kLinks) + " links await their fence, none more is taken";
    return nullptr;
  }
  links_.push_back({std::move(link), epoch, path, Life::opening, false, now, now, &statistics_for(p.rail)});
  next_check_ = now;
  return &links_.back();
}

bool Connection::say(Attached& a, const wire::Record& r) {
  if (!a.link || !a.usable()) return false;
  Post p = a.link->say(*this, r.bytes(), now_);
  return p == Post::ok;
}

void Connection::heard(Link& l, ConstBytes b) {
  Attached* a = find(l);
  if (!a || over(*a)) return;
  auto k = wire::kind_of(b);
  if (k == wire::Kind::ping)
    a->heard = now_;  // no end of the quiet: two that wait must not keep each other up
  else note_word(*a);
  if (!k) return complain_protocol(*a, "a record of unknown kind");
  switch (*k) {
    case wire::Kind::ping:
      return;
    case wire::Kind::bye: {
      auto bye = wire::read_bye(b);
      if (!bye) return complain_protocol(*a, "a malformed BYE");
      if (state_ == State::failed || state_ == State::closed) return;
      if (bye->reason == wire::Reason::closed) {
        state_ = State::closed;
        error_ = {Code::remote, "the peer " + peer_ + " closed the connection " + name_};
        peer_closed();
      } else {
        fail({Code::remote, "the peer " + peer_ + " ended the connection " + name_ +
                                (bye->reason == wire::Reason::message_too_large
                                     ? ": a message was larger than the receive posted for it"
                                 : bye->reason == wire::Reason::protocol ? ": it saw a protocol violation"
                                                                         : ": it aborted")},
             now_);
      }
      return;
    }
    default:
      record(*a, *k, b);
  }
}

void Connection::note_word(Attached& a) {
  a.heard = now_;
  ping_interval_ = options_.ping_after;
}

void Connection::complain_protocol(Attached& a, const char* what) {
  logf(Level::warn, "connection %s: the peer %s said %s on %s; the link is given up", name_.c_str(),
       peer_.c_str(), what, a.link ? a.link->describe().c_str() : "a fenced link");
  broke(*a.link, Cause::protocol);
  if (++violations_ == kViolations)
    fail({Code::remote, "connection " + name_ + ": the peer " + peer_ + " said " +
                            std::to_string(violations_) + " times what it must not say, last " + what +
                            "; do both ends run the same build of Megascale?"},
         now_);
}

void Connection::drop(Attached& a, Cause) {
  if (a.life == Life::dead) return;
  a.life = Life::dead;
  if (a.link) a.link->fence();
}

void Connection::broke(Link& l, Cause cause) {
  Attached* a = find(l);
  if (!a || !a->usable()) return;
  Life was = a->life;
  Time quiet_since = cause == Cause::silence ? a->heard : now_;
  drop(*a, cause);
  fenced_since_++;
  if (parting_ && cause == Cause::closed && state_ == State::open) state_ = State::closed;  // as was to come
  if (state_ == State::closed || state_ == State::failed) return;
  last_trouble_ = to_string(cause);
  if (!any_usable() && lost_since_ == kNever) {
    lost_since_ = now_;
    attempts_ = 0;
  }
  if (was == Life::live) {  // one that was never in use, or not any more, is not missed
    count(a->statistics->flaps);
    if (waiting() && stalled_since_ == kNever) stalled_since_ = quiet_since;
    logf(Level::info, "flap: connection %s %s %s lost %s (%s)", name_.c_str(), direction(), peer_.c_str(),
         l.describe().c_str(), to_string(cause));
    event("flap")
        .with("rail", a->statistics->name)
        .with("link", l.describe())
        .with("epoch", a->epoch)
        .with("cause", to_string(cause))
        .emit();
  }
  link_broke(*a, was, cause);
  next_check_ = now_;
}

void Connection::fenced(Link& l) {
  Attached* a = find(l);
  if (!a || a->usable() || a->fenced) return;
  a->fenced = true;
  if (state_ == State::open && !parting_) count(a->statistics->fenced);  // every end fences its links
  link_fenced(*a);
}

Event Connection::event(const char* what) const {
  Event result(what);
  result.with("connection", name_).with("direction", direction()).with("peer", peer_);
  return result;
}

void Connection::note_recovery(const Attached& a, uint64_t chunks, Bytes bytes) {
  Duration stalled = stalled_since_ == kNever ? Duration(0) : now_ - stalled_since_;
  count(a.statistics->chunks_replayed, chunks);
  count(a.statistics->bytes_replayed, bytes);
  a.statistics->lost(stalled);
  logf(Level::info,
       "flap over: connection %s %s %s goes on over %s; %d links fenced, %llu chunks (%llu bytes) replayed, "
       "traffic stood still for %.0f ms",
       name_.c_str(), direction(), peer_.c_str(), a.link->describe().c_str(), fenced_since_,
       static_cast<unsigned long long>(chunks), static_cast<unsigned long long>(bytes),
       seconds(stalled) * 1e3);
  event("recovered")
      .with("rail", a.statistics->name)
      .with("epoch", a.epoch)
      .with("fenced", fenced_since_)
      .with("replayed_chunks", chunks)
      .with("replayed_bytes", bytes)
      .with("attempts", attempts_)
      .with("stalled_ms", seconds(stalled) * 1e3)
      .emit();
  lost_since_ = stalled_since_ = kNever;
  fenced_since_ = attempts_ = 0;
}

void Connection::rail_lost(const std::string& rail, Cause cause, Time now) {
  now_ = now;
  for (std::size_t i = 0; i < links_.size(); i++)
    if (links_[i].link && links_[i].usable() && links_[i].statistics->name == rail)
      links_[i].link->lost(*this, cause);
}

void Connection::peer_gone(const std::string& why, Time now) {
  if (state_ == State::failed || state_ == State::closed) return;
  if (parting_) {
    state_ = State::closed;
    return;
  }
  fail({Code::remote, "connection " + name_ + ": the peer " + peer_ + " is gone (" + why +
                          "); the job has to be restarted without it"},
       now);
}

void Connection::close(wire::Reason reason, Time now) {
  now_ = now;
  if (state_ == State::open) last_words();
  if (state_ != State::failed)
    for (auto& a : links_)
      if (a.usable() && a.link) say(a, wire::write(wire::Bye{reason}));
  if (state_ != State::failed) state_ = State::closed;
  for (auto& a : links_) drop(a, Cause::closed);
}

void Connection::fail(Error e, Time now, wire::Reason said) {
  if (state_ == State::failed) return;
  now_ = now;
  state_ = State::failed;
  error_ = std::move(e);
  logf(Level::warn, "%s", error_.message.c_str());
  event("failed").with("why", error_.message).emit();
  // Told that we give up, the peer need not find out by dialling.
  for (auto& a : links_) say(a, wire::write(wire::Bye{said}));
  for (auto& a : links_) drop(a, Cause::closed);
}

}  // namespace megascale
