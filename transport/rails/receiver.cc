#include "transport/rails/receiver.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "transport/base/log.h"

namespace megascale {
namespace {
// Small messages run ahead of their grants, so a STATE can wait until several are due, or until it has been
// quiet for so long.
constexpr Duration kLazy = 20us;
constexpr uint64_t kLazyMessages = Sender::kAhead / 2;
constexpr Duration kCheckFirst = 50ms, kCheckLast = 1s;
}  // namespace

Receiver::Receiver(const ConnectionOptions& o, std::string name, std::string peer, Dialer& d)
    : Connection(o, std::move(name), std::move(peer), d) {
  for (auto& s : slots_) s.connection = this;
}

// ---- posting ----

Request* Receiver::post(std::byte* data, Bytes capacity, const void* mark, Time now) {
  Slot& s = slot(posted_);
  if (state_ == State::failed) return nullptr;
  if (state_ == State::closed && !s.whole) return nullptr;  // what came before the peer closed is not lost
  if (s.busy || posted_ - completed_ >= kPosted) return nullptr;
  now_ = now;
  begin_to_wait();
  s.message = posted_++;
  s.data = data;
  s.capacity = capacity;
  s.mark = mark;
  s.busy = true;
  s.done = false;
  dirty_since_ = now;
  dirty_ = true;
  if (s.whole) deliver();  // it came early
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

// ---- data ----

// Whether a chunk is one that its message can have; breaks the link or fails the connection if not.
bool Receiver::fits(Attached& a, const Chunk& c, Slot& s) {
  if (!c.plausible()) return complain_protocol(a, "a chunk that no message can have"), false;
  bool early = c.message >= posted_;
  if (early && (c.total > Sender::kEager || c.message >= posted_ + Sender::kAhead))
    return complain_protocol(a, "a chunk of a message that was not granted"), false;
  if (s.chunk_bytes && (s.total != c.total || s.chunk_bytes != c.chunk_bytes))
    return complain_protocol(a, "chunks of one message that disagree about it"), false;
  if (!early && c.total > s.capacity) {
    too_large(c.message, c.total, s.capacity);
    return false;
  }
  return true;
}

std::byte* Receiver::early_buffer(Slot& s) {
  if (!early_) early_ = std::make_unique_for_overwrite<std::byte[]>(kWindow * Sender::kEager);
  if (s.early < 0) {
    s.early = std::countr_zero(early_free_);
    early_free_ &= early_free_ - 1;
  }
  return early_.get() + static_cast<std::size_t>(s.early) * Sender::kEager;
}

std::byte* Receiver::land(Link& l, const Chunk& c) {
  Attached* a = find(l);
  if (!a || over(*a)) return nullptr;
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
  if (!c.total) return &nowhere_;
  if (s.early >= 0 || c.message >= posted_) return early_buffer(s) + c.offset();
  return s.data + c.offset();
}

void Receiver::placed(Link& l, const Chunk& c) {
  Attached* a = find(l);
  if (!a || over(*a)) return;
  note_word(*a);
  if (a->life == Life::opening) a->life = Life::live;  // only a sender that has the link puts chunks on it
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
  if (state_ == State::failed || (fencing(~0u) && !options_.leave_out.fence)) return;
  while (completed_ < posted_ && slot(completed_).whole) {
    Slot& s = slot(completed_);
    if (!unpack(s)) return;
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
    dirty_since_ = now_;
    dirty_ = true;
  }
}

// Brings a message that came before its receive to where it belongs. False: it does not fit there.
bool Receiver::unpack(Slot& s) {
  if (s.total > s.capacity) {
    too_large(s.message, s.total, s.capacity);
    return false;
  }
  if (s.early < 0) return true;
  if (s.total)
    std::memcpy(s.data, early_.get() + static_cast<std::size_t>(s.early) * Sender::kEager, s.total);
  early_free_ |= 1ull << s.early;
  early_copies_++;
  return true;
}

void Receiver::too_large(MessageId m, Bytes total, Bytes capacity) {
  fail({Code::invalid_usage, "connection " + name_ + " from " + peer_ + ": message " + std::to_string(m) +
                                 " has " + std::to_string(total) +
                                 " bytes, but the receive posted for it has room for " +
                                 std::to_string(capacity)},
       now_, wire::Reason::message_too_large);
}

// ---- what is said ----

// The link that the sender used last: of all it is the least likely to be gone.
Connection::Attached* Receiver::freshest() {
  Attached* best = nullptr;
  for (auto& a : links_)
    if (a.life == Life::live && (!best || a.heard > best->heard)) best = &a;
  return best;
}

void Receiver::say_state() {
  Attached* a = state_ == State::open ? freshest() : nullptr;
  if (!a) return;
  wire::State s{completed_, posted_};
  dirty_ = overdue_ = false;  // before say(), in which more may happen
  if (!say(*a, wire::write(s))) {
    dirty_ = true;
    return;
  }
  said_completed_ = s.completed;
  said_posted_ = s.granted;
}

void Receiver::part(Time now) {
  now_ = now;
  parting_ = bye_due_ = dirty_ = true;
  say_state();
  if (!dirty_) say_bye();
}

void Receiver::say_bye() {
  Attached* a = freshest();  // behind what was acknowledged on it
  if (a) bye_due_ = !say(*a, wire::write(wire::Bye{wire::Reason::closed}));
}

void Receiver::move(Time now) {
  if (open_) answer_open();
  if (bye_due_ && !dirty_ && !open_) say_bye();
  if (!dirty_) return;
  bool now_or_never = completed_ == posted_ && bulk_;  // nobody may call again for long
  bool many = completed_ - said_completed_ >= kLazyMessages || posted_ - said_posted_ >= kLazyMessages;
  if (now_or_never || many || (bulk_ ? overdue_ : now - dirty_since_ > kLazy)) say_state();
  overdue_ = dirty_;
}

void Receiver::record(Attached& a, wire::Kind k, ConstBytes b) {
  if (k == wire::Kind::leave) {
    drop(a, Cause::closed);
    dirty_since_ = now_;
    dirty_ = true;  // the sender does not listen on it any more: what was said there last may be lost
    bye_due_ = parting_;
    return;
  }
  if (k != wire::Kind::open) return complain_protocol(a, "a record that only a receiver says");
  auto o = wire::read_open(b);
  if (!o) return complain_protocol(a, "a malformed OPEN");
  heard_open(a, *o);
}

void Receiver::heard_open(Attached& a, const wire::Open& o) {
  // Of two that overtook each other on two links the later one counts: only its answer is awaited.
  if (o.sequence <= open_asked_.sequence && !options_.leave_out.generation) return;
  if (a.life == Life::opening) a.life = Life::live;
  open_ = true;
  open_asked_ = o;
  open_link_ = a.epoch;
  for (auto& l : links_)
    if (l.usable() && l.epoch <= o.issued && !o.names(l.epoch)) {
      fenced_since_ += l.life == Life::live;
      drop(l, Cause::closed);
    }
  answer_open();
}

const Connection::Attached* Receiver::fencing(Epoch upto) const {
  for (auto& a : links_)
    if (a.life == Life::dead && !a.fenced && a.epoch <= upto) return &a;
  return nullptr;
}

void Receiver::answer_open() {
  if (fencing(open_asked_.issued) && !options_.leave_out.fence) return;
  deliver();
  auto asked = std::find_if(links_.begin(), links_.end(),
                            [&](const Attached& a) { return a.epoch == open_link_ && a.usable(); });
  Attached* a = asked != links_.end() ? &*asked : freshest();  // the sender hears it on any link
  if (a) say_resume(*a);
  else open_ = false;  // the sender will see that its link is gone, and ask again
}

void Receiver::say_resume(Attached& a) {
  wire::Resume r{open_asked_.sequence, completed_, posted_, 0, {}};
  for (MessageId m = completed_; m < completed_ + kWindow; m++) r.placed[r.n++] = slot(m).placed;
  while (r.n && !r.placed[r.n - 1u]) r.n--;
  bool was_dirty = dirty_;
  open_ = dirty_ = false;  // before say(), in which more may happen
  if (!say(a, wire::write(r))) {
    if (open_asked_.sequence == r.sequence) open_ = true;  // no room: again at the next move
    dirty_ |= was_dirty;
    return;
  }
  said_completed_ = r.completed;
  said_posted_ = r.granted;
  bool first = state_ == State::connecting;
  if (first) state_ = State::open;
  if (first) lost_since_ = stalled_since_ = kNever;
  else if (lost_since_ != kNever || fenced_since_) note_recovery(a, 0, 0);
}

// ---- links ----

bool Receiver::accepted(std::unique_ptr<Link> link, Epoch epoch, const Path& path, Time now) {
  if (state_ == State::failed || state_ == State::closed) return false;
  if (epoch <= open_asked_.issued && !open_asked_.names(epoch)) return false;  // given up by the sender
  for (auto& a : links_)
    if (a.epoch == epoch) return false;
  newest_ = std::max(newest_, epoch);
  return attach(std::move(link), epoch, path, 0, now);
}

void Receiver::link_broke(Attached&, Life, Cause) {
  dirty_since_ = now_;
  dirty_ = true;  // what was said last may have been lost with it
  bye_due_ = parting_;
  next_check_of_peer_ = now_;
  check_back_off_ = kCheckFirst;
}

// Without the last acknowledgement the sender would take what did arrive for lost.
void Receiver::last_words() {
  if (dirty_) say_state();
}

void Receiver::link_fenced(Attached&) { deliver(); }

// The receiver cannot dial: it asks after the peer's process, and waits for it to dial.
void Receiver::manage(Time now) {
  const bool usable = any_usable();
  if (!usable && lost_since_ == kNever) lost_since_ = now;
  if (fail_if_overdue(now) || usable || now < next_check_of_peer_) return;
  check_back_off_ = std::clamp(check_back_off_ * 2, kCheckFirst, kCheckLast);
  next_check_of_peer_ = now + check_back_off_;
  attempts_++;
  dialer_.check_peer();
}

// Without a word from the sender, or with a link whose fence nobody confirms, for too long.
bool Receiver::fail_if_overdue(Time now) {
  const Attached* unfenced = fencing(~0u);
  if (!unfenced) fencing_since_ = kNever;
  else if (fencing_since_ == kNever) fencing_since_ = now;
  const bool connecting = state_ == State::connecting;  // a link without a first OPEN is no word either
  Time since = std::min({lost_since_, fencing_since_, connecting ? created_ : kNever});
  if (since == kNever || now - since <= (connecting ? options_.connect_timeout : options_.flap_timeout))
    return false;
  char text[96];
  std::snprintf(text, sizeof text, " for %.1f s (asked after it %d times; limit %s)", seconds(now - since),
                attempts_, connecting ? "MEGASCALE_CONNECT_TIMEOUT" : "MEGASCALE_FLAP_TIMEOUT");
  if (lost_since_ == since || fencing_since_ != since)
    fail({Code::remote, "connection " + name_ + ": no word from the peer " + peer_ + text +
                            "; last trouble: " + (last_trouble_.empty() ? "no answer" : last_trouble_)},
         now);
  else
    fail({Code::system, "connection " + name_ + " from " + peer_ + ": " + unfenced->link->describe() +
                            " was given up, and that it can write no more could not be confirmed" + text +
                            "; look at the device that it used"},
         now);
  return true;
}

}  // namespace megascale
