#include "transport/rails/receiver.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "transport/base/log.h"

namespace megascale {
namespace {
constexpr uint64_t ones(int n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

// Small messages run ahead of their grants, so a STATE can wait until several are due or this long.
constexpr Duration kLazy = 20us;
constexpr uint64_t kLazyMessages = Sender::kAhead / 2;
constexpr Duration kCheckFirst = 50ms, kCheckLast = 1s;
}  // namespace

Receiver::Receiver(const ConnectionOptions& o, std::string name, std::string peer, Dialer& d)
    : Connection(o, std::move(name), std::move(peer), d) {
  for (auto& s : slots_) s.connection = this;
}

// ---- posting
// ----------------------------------------------------------------------------------------------------

Request* Receiver::post(std::byte* data, Bytes capacity, const void* mark, Time now) {
  if (state_ == State::failed || (state_ == State::closed && posted_ == completed_)) return nullptr;
  Slot& s = slot(posted_);
  if (s.busy || posted_ - completed_ >= kPosted) return nullptr;
  now_ = now;
  s.message = posted_++;
  s.data = data;
  s.capacity = capacity;
  s.mark = mark;
  s.busy = true;
  s.done = false;
  if (!dirty_) dirty_since_ = now;
  dirty_ = true;
  if (s.early >= 0 && s.whole) deliver();
  if (bulk_ || posted_ - said_posted_ >= kLazyMessages) say_state();
  return &s;
}

bool Receiver::forget(const void* mark, Time now) {
  bool touched = false;
  for (MessageId m = completed_; m < posted_; m++) touched |= mark && slot(m).mark == mark;
  if (touched)
    fail({Code::remote, "connection " + name_ + ": memory was deregistered under a receive from " + peer_},
         now);
  return touched;
}

// ---- data
// -------------------------------------------------------------------------------------------------------

// Whether a chunk is one that its message can have; breaks the link or fails the connection if not.
bool Receiver::fits(Attached& a, const Chunk& c, Slot& s) {
  if (!c.plausible()) return complain_protocol(a, "a chunk that no message can have"), false;
  bool early = c.message >= posted_;
  if (early && (c.total > Sender::kEager || c.message >= posted_ + Sender::kAhead))
    return complain_protocol(a, "a chunk of a message that was not granted"), false;
  if (s.chunk_bytes && (s.total != c.total || s.chunk_bytes != c.chunk_bytes))
    return complain_protocol(a, "chunks of one message that disagree about it"), false;
  if (!early && c.total > s.capacity) {
    char text[160];
    std::snprintf(text, sizeof text,
                  ": message %llu has %llu bytes, but the receive posted for it has room for %llu",
                  static_cast<unsigned long long>(c.message), static_cast<unsigned long long>(c.total),
                  static_cast<unsigned long long>(s.capacity));
    say(a, wire::write(wire::Bye{wire::Reason::message_too_large}));
    fail({Code::invalid_usage, "connection " + name_ + " from " + peer_ + text}, now_);
    return false;
  }
  return true;
}

std::byte* Receiver::early_buffer(Slot& s) {
  if (!early_) early_ = std::make_unique_for_overwrite<std::byte[]>(Sender::kAhead * Sender::kEager);
  if (s.early < 0) {
    if (!early_free_) return nullptr;
    s.early = std::countr_zero(early_free_);
    early_free_ &= early_free_ - 1;
  }
  return early_.get() + static_cast<std::size_t>(s.early) * Sender::kEager;
}

std::byte* Receiver::land(Link& l, const Chunk& c) {
  Attached* a = find(l);
  if (!a || (!a->usable() && !options_.leave_out.generation)) return nullptr;
  if (c.message < completed_ || c.message >= completed_ + kWindow) {
    if (c.message >= completed_ + kWindow) complain_protocol(*a, "a chunk of a message far ahead");
    return nullptr;
  }
  Slot& s = slot(c.message);
  if (!fits(*a, c, s)) return nullptr;
  if (s.whole || s.placed >> c.index & 1) {
    if (!options_.leave_out.duplicates || s.whole) return nullptr;
  }
  s.total = c.total;
  s.chunk_bytes = c.chunk_bytes;
  if (s.early >= 0 || c.message >= posted_) return early_buffer(s);
  return s.data + c.offset();
}

void Receiver::placed(Link& l, const Chunk& c) {
  Attached* a = find(l);
  // The generation check: what a given-up link placed counts only if the RESUME said so.
  if (!a || (!a->usable() && !options_.leave_out.generation)) return;
  a->heard = now_;
  ping_interval_ = options_.ping_after;
  if (c.message < completed_ || c.message >= completed_ + kWindow) return;
  Slot& s = slot(c.message);
  if (!s.chunk_bytes || s.whole || c.index >= c.count()) return;
  uint64_t bit = 1ull << c.index;
  if ((s.placed & bit) && !options_.leave_out.duplicates) return;  // a duplicate says nothing new
  s.placed |= bit;
  s.counted++;
  count(a->statistics->bytes_received, c.bytes());
  if (s.counted < c.count()) return;
  s.whole = true;
  count(a->statistics->messages_received);
  deliver();
}

// Messages complete in order, once, and only when nothing that was given up can still write into them.
void Receiver::deliver() {
  if (fencing(~0u) && !options_.leave_out.fence) return;
  while (completed_ < posted_ && slot(completed_).whole) {
    Slot& s = slot(completed_);
    if (s.early >= 0) {
      if (s.total > s.capacity) {
        if (Attached* a = usable_link()) {
          Chunk c{s.message, s.total, s.chunk_bytes, 0};
          fits(*a, c, s);
        } else {
          fail({Code::invalid_usage,
                "connection " + name_ + " from " + peer_ + ": a message larger than its receive"},
               now_);
        }
        return;
      }
      if (s.total)
        std::memcpy(s.data, early_.get() + static_cast<std::size_t>(s.early) * Sender::kEager, s.total);
      early_free_ |= 1u << s.early;
      early_copies_++;
    }
    s.size = s.total;
    bulk_ = s.total > Sender::kEager;
    s.early = -1;
    s.mark = nullptr;
    s.placed = 0;
    s.counted = 0;
    s.chunk_bytes = 0;
    s.whole = false;
    s.done = true;
    completed_++;
    if (!dirty_) dirty_since_ = now_;
    dirty_ = true;
  }
}

// ---- what is said
// -----------------------------------------------------------------------------------------------

void Receiver::say_state() {
  if (state_ != State::open || open_) return;  // a RESUME is due, and says the same
  for (auto& a : links_) {
    if (a.life != Life::live) continue;
    if (!say(a, wire::write(wire::State{completed_, posted_}))) continue;
    said_completed_ = completed_;
    said_posted_ = posted_;
    dirty_ = overdue_ = false;
    return;
  }
}

void Receiver::move(Time now) {
  if (open_) answer_open();
  if (!dirty_) return;
  bool now_or_never = completed_ == posted_ && bulk_;  // nobody may call again for long
  bool many = completed_ - said_completed_ >= kLazyMessages || posted_ - said_posted_ >= kLazyMessages;
  if (now_or_never || many || (bulk_ ? overdue_ : now - dirty_since_ > kLazy)) say_state();
  overdue_ = dirty_;
}

void Receiver::record(Attached& a, wire::Kind k, ConstBytes b) {
  if (k == wire::Kind::leave) {
    over_ = std::max(over_, a.epoch);
    return drop(a, Cause::closed);
  }
  if (k != wire::Kind::open) return complain_protocol(a, "a record that only a receiver says");
  auto o = wire::read_open(b);
  if (!o) return complain_protocol(a, "a malformed OPEN");
  open_ = true;
  open_asked_ = *o;
  open_link_ = a.epoch;
  auto named = [&](Epoch e) {
    return std::find(o->alive.begin(), o->alive.begin() + o->n, e) != o->alive.begin() + o->n;
  };
  for (auto& l : links_)
    if (l.usable() && l.epoch <= o->issued && !named(l.epoch)) drop(l, Cause::closed);
  answer_open();
}

bool Receiver::fencing(Epoch upto) const {
  return std::any_of(links_.begin(), links_.end(),
                     [&](const Attached& a) { return a.life == Life::dead && !a.fenced && a.epoch <= upto; });
}

void Receiver::answer_open() {
  if (fencing(open_asked_.issued) && !options_.leave_out.fence) return;
  deliver();
  for (auto& a : links_) {
    if (a.epoch != open_link_ || !a.usable()) continue;
    for (auto& l : links_)
      if (l.life == Life::opening && l.epoch <= open_asked_.issued) l.life = Life::live;
    wire::Resume r{open_asked_.sequence, completed_, posted_, 0, {}};
    for (MessageId m = completed_; m < completed_ + kWindow; m++) r.placed[r.n++] = slot(m).placed;
    while (r.n && !r.placed[r.n - 1u]) r.n--;
    open_ = false;
    bool first = state_ == State::connecting;
    state_ = State::open;
    if (!say(a, wire::write(r))) return;
    said_completed_ = completed_;
    said_posted_ = posted_;
    dirty_ = false;
    if (first) lost_since_ = stalled_since_ = kNever;
    else if (lost_since_ != kNever || fenced_since_) note_recovery(a, 0, 0);
    return;
  }
  open_ = false;  // the link that asked is gone; the sender will ask again
}

// ---- links
// ------------------------------------------------------------------------------------------------------

bool Receiver::accepted(std::unique_ptr<Link> link, Epoch epoch, const Path& path, Time now) {
  if (epoch <= over_ || state_ == State::failed || state_ == State::closed) return false;
  for (auto& a : links_)
    if (a.epoch == epoch) return false;
  newest_ = std::max(newest_, epoch);
  attach(std::move(link), epoch, path, 0, Life::opening, now);
  return true;
}

void Receiver::link_broke(Attached& a, Cause) {
  (void)a;
  next_check_of_peer_ = now_;
  check_back_off_ = kCheckFirst;
}

void Receiver::link_fenced(Attached&) { deliver(); }

// The receiver cannot dial: it asks after the peer's process, and waits for it to dial.
void Receiver::manage(Time now) {
  if (any_usable()) return;
  if (lost_since_ == kNever) lost_since_ = now;
  Duration deadline = state_ == State::connecting ? options_.connect_timeout : options_.flap_timeout;
  if (now - lost_since_ > deadline) {
    char text[96];
    std::snprintf(text, sizeof text, " for %.1f s (asked after it %d times; limit %s)",
                  seconds(now - lost_since_), attempts_,
                  state_ == State::connecting ? "MEGASCALE_CONNECT_TIMEOUT" : "MEGASCALE_FLAP_TIMEOUT");
    return fail(
        {Code::remote, "connection " + name_ + ": no word from the peer " + peer_ + text +
                           "; last trouble: " + (last_trouble_.empty() ? "no answer" : last_trouble_)},
        now);
  }
  if (now < next_check_of_peer_) return;
  check_back_off_ = std::clamp(check_back_off_ * 2, kCheckFirst, kCheckLast);
  next_check_of_peer_ = now + check_back_off_;
  attempts_++;
  dialer_.check_peer();
}

}  // namespace megascale
