#include "transport/rails/sender.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "transport/base/events.h"
#include "transport/base/log.h"

namespace megascale {
namespace {

// Between the dials of two paths after a loss: the better path gets this head start.
constexpr Duration kStagger = 20ms, kStaggerAtFirst = 250ms;

}  // namespace

Sender::Sender(const ConnectionOptions& o, std::string name, std::string peer, Dialer& d,
               std::vector<Path> paths)
    : Connection(o, std::move(name), std::move(peer), d),
      copies_(std::make_unique_for_overwrite<std::byte[]>(kAhead * kEager)),
      copies_free_(static_cast<uint32_t>(ones(kAhead))) {
  if (paths.size() > kPaths) paths.resize(kPaths);
  for (auto& p : paths) lines_.push_back({.path = std::move(p)});
  for (auto& s : slots_) s.connection = this;
}

// ---- posting ----

Request* Sender::post(const std::byte* data, Bytes size, const void* mark, Time now) {
  if (state_ == State::failed || state_ == State::closed) return nullptr;
  if (size > Chunk::kLargest) {
    fail({Code::invalid_usage, "connection " + name_ + ": a message of " + std::to_string(size) +
                                   " bytes to " + peer_ + "; the largest is " +
                                   std::to_string(Chunk::kLargest)},
         now);
    return nullptr;
  }
  // A caller whose messages are done as soon as they are copied never tests them, and so would never hear
  // that copies are free again.
  if (size <= kEager && std::popcount(copies_free_) <= static_cast<int>(kAhead / 2)) listen(now);
  Slot& s = slot(next_);
  if (next_ - completed_ >= kWindow || s.busy) return nullptr;
  s.message = next_++;
  s.size = size;
  s.data = data;
  s.mark = mark;
  s.busy = true;
  s.done = false;
  s.copy = -1;
  s.chunk_bytes = Chunk::cut(size, options_.smallest_chunk);
  s.todo = ones(Chunk{.total = size, .chunk_bytes = s.chunk_bytes}.count());
  s.placed = 0;
  if (size <= kEager && copies_free_) {
    s.copy = std::countr_zero(copies_free_);
    copies_free_ &= copies_free_ - 1;
    if (size) std::memcpy(copies_.get() + static_cast<std::size_t>(s.copy) * kEager, data, size);
    s.data = copies_.get() + static_cast<std::size_t>(s.copy) * kEager;
    s.mark = nullptr;
  }
  now_ = now;
  begin_to_wait();
  move(now);
  return &s;
}

void Sender::listen(Time now) {
  now_ = now;
  for (std::size_t i = 0; i < links_.size(); i++)
    if (links_[i].link) links_[i].link->poll(*this, now);
}

bool Sender::forget(const void* mark, Time now) {
  bool touched = false;
  for (MessageId m = completed_; m < next_; m++) touched |= mark && slot(m).mark == mark;
  if (touched)
    fail({Code::remote, "connection " + name_ + ": memory was deregistered under a send to " + peer_}, now);
  return touched;
}

bool Sender::only_copies_left() const {
  for (MessageId m = completed_; m < next_; m++)
    if (slots_[m % kWindow].copy < 0) return false;
  return true;
}

bool Sender::may_travel(const Slot& s) const {
  return s.message < granted_ || (s.size <= kEager && s.message < granted_ + kAhead);
}

void Sender::move(Time now) {
  if (state_ != State::open) return;
  while (first_todo_ < next_) {
    MessageId m = first_todo_;
    Slot& s = slot(m);
    if (s.todo && !may_travel(s)) return;
    while (s.todo) {
      Attached* a = link_with_room(now);
      if (!a || !put_chunk(s, *a, std::countr_zero(s.todo), now)) return;
    }
    if (first_todo_ == m) first_todo_++;  // an acknowledgement or a RESUME in put() may have moved it
  }
}

Connection::Attached* Sender::link_with_room(Time now) {
  std::size_t n = links_.size();
  for (std::size_t i = 0; i < n; i++) {
    Attached& a = links_[turn_ < n ? turn_ : (turn_ = 0)];
    turn_++;
    if (a.life == Life::live && a.link->has_room(now)) return &a;
  }
  return nullptr;
}

bool Sender::put_chunk(Slot& s, Attached& a, int index, Time now) {
  Chunk c{s.message, s.size, s.chunk_bytes, static_cast<uint16_t>(index)};
  // Set before put(): should the link break inside it, the chunk is in doubt and belongs to the broken epoch.
  s.todo &= ~(1ull << index);
  s.carrier[static_cast<std::size_t>(index)] = a.epoch;
  Post p = a.link->put(*this, c, s.data + c.offset(), now);
  if (p == Post::again && c.message >= completed_) s.todo |= 1ull << index;
  if (p == Post::ok) {
    count(a.statistics->bytes_sent, c.bytes());
    if (index == 0) count(a.statistics->messages_sent);
    // A copied message is done once the kernel has all of it: nobody may call again to push it on.
    if (s.copy >= 0 && !s.todo && !a.link->wants_out()) s.done = true;
  }
  return p != Post::again;
}

// ---- what the receiver says ----

void Sender::record(Attached& a, wire::Kind k, ConstBytes b) {
  if (k == wire::Kind::state) {
    if (auto s = wire::read_state(b)) return acknowledge(s->completed, s->granted, a);
    return complain_protocol(a, "a malformed STATE");
  }
  if (k == wire::Kind::resume) {
    if (auto r = wire::read_resume(b)) return resume(a, *r);
    return complain_protocol(a, "a malformed RESUME");
  }
  complain_protocol(a, "a record that only a sender says");
}

// The receiver waits for this: to see us close is to know that its last acknowledgement was heard.
void Sender::peer_closed() {
  for (auto& l : links_) drop(l, Cause::closed);
}

void Sender::acknowledge(uint64_t completed, uint64_t granted, Attached& a) {
  if (completed > next_ || granted < completed || granted > completed + kWindow)
    return complain_protocol(a, "an acknowledgement of what was never sent, or an impossible grant");
  granted_ = std::max(granted_, granted);  // records of several links may overtake each other
  for (; completed_ < completed; completed_++) {
    Slot& s = slot(completed_);
    s.todo = 0;
    s.done = true;
    s.mark = nullptr;
    if (s.copy >= 0) copies_free_ |= 1u << s.copy;
    s.copy = -1;
  }
  first_todo_ = std::max(first_todo_, completed_);
}

void Sender::resume(Attached& a, const wire::Resume& r) {
  // The answer to an older question says nothing of the epochs that were given up since.
  if (r.sequence != open_sequence_ && !options_.leave_out.generation) return;
  acknowledge(r.completed, r.granted, a);
  if (!a.usable()) return;
  uint64_t chunks = 0;
  Bytes bytes = 0;
  for (MessageId m = completed_; m < next_; m++) {
    uint64_t there = m >= r.completed && m - r.completed < r.n ? r.placed[m - r.completed] : 0;
    reclaim(slot(m), there, chunks, bytes);
  }
  first_todo_ = completed_;
  for (auto& l : links_)
    if (l.life == Life::opening && l.epoch <= open_issued_) {
      l.life = Life::live;
      lines_[static_cast<std::size_t>(l.path)].trust.opened();
    }
  asked_since_ = open_wanted_ ? now_ : kNever;
  bool first = state_ == State::connecting;
  state_ = State::open;
  if (first) lost_since_ = stalled_since_ = kNever;
  else if (lost_since_ != kNever || chunks || fenced_since_) note_recovery(a, chunks, bytes);
  if (!options_.stripe) keep_one();
}

void Sender::keep_one() {
  bool home = std::any_of(links_.begin(), links_.end(),
                          [&](const Attached& l) { return l.life == Life::live && is_home(l.path); });
  if (!home) return;
  for (auto& l : links_) {
    if (l.life != Life::live || is_home(l.path)) continue;
    l.life = Life::retiring;
    event("returned").with("rail_from", l.statistics->name).with("rail", lines_[0].path.rail).emit();
  }
}

// Chunks that a fenced link carried: those that are there are done, the others travel again.
void Sender::reclaim(Slot& s, uint64_t placed_there, uint64_t& chunks, Bytes& bytes) {
  int n = Chunk{.total = s.size, .chunk_bytes = s.chunk_bytes}.count();
  uint64_t out = ones(n) & ~s.todo & ~s.placed;
  for (; out; out &= out - 1) {
    int i = std::countr_zero(out);
    Epoch e = s.carrier[static_cast<std::size_t>(i)];
    bool asked =
        e <= open_issued_ && std::find(open_alive_.begin(), open_alive_.end(), e) == open_alive_.end();
    if (!asked) continue;
    if (placed_there >> i & 1) {
      s.placed |= 1ull << i;
    } else {
      s.todo |= 1ull << i;
      chunks++;
      bytes += Chunk{s.message, s.size, s.chunk_bytes, static_cast<uint16_t>(i)}.bytes();
    }
  }
}

// ---- links ----

void Sender::link_broke(Attached& a, Life was, Cause cause) {
  auto& line = lines_[static_cast<std::size_t>(a.path)];
  if (was == Life::opening) line.trust.failed(now_);
  else line.trust.flapped(now_);
  line.lost_silently =
      cause == Cause::silence || cause == Cause::interface_gone || cause == Cause::address_gone;
  open_wanted_ = true;
  bool live = std::any_of(links_.begin(), links_.end(), [](auto& l) { return l.life == Life::live; });
  if (live) return;
  for (auto& l : links_)  // the spare that was about to retire is needed after all
    if (l.life == Life::retiring) l.life = Life::live;
}

void Sender::dialled(int path, Epoch epoch, std::unique_ptr<Link> link, Time now) {
  now_ = now;
  auto& line = lines_[static_cast<std::size_t>(path)];
  if (line.dialling != epoch || state_ == State::failed || state_ == State::closed)
    return;  // given up meanwhile
  line.dialling = 0;
  line.lost_silently = false;
  bool wanted = options_.stripe || !any_usable() || is_home(path);
  if (!wanted) return;
  if (!attach(std::move(link), epoch, line.path, path, now)) return line.trust.failed(now);
  open_wanted_ = true;
  if (!options_.stripe)
    for (auto& l : lines_)
      if (l.dialling) {
        dialer_.give_up(l.dialling);
        l.dialling = 0;
      }
  say_open(now);
}

void Sender::dial_failed(int path, Epoch epoch, Cause cause, const std::string& why, Time now) {
  now_ = now;
  auto& line = lines_[static_cast<std::size_t>(path)];
  if (line.dialling != epoch) return;
  line.dialling = 0;
  line.trust.failed(now);
  last_trouble_ = std::string(to_string(cause)) + (why.empty() ? "" : ": " + why) + " on " + line.path.name;
}

void Sender::rail_returned(const std::string& rail, Time now) {
  for (auto& l : lines_)
    if (l.path.rail == rail) {
      l.trust.returned(now);
      l.lost_silently = false;
    }
  next_check_ = now;
}

void Sender::lost_there(Epoch newest, Time now) {
  if (state_ == State::failed || state_ == State::closed) return;
  listen(now);  // what did come here tells more
  for (std::size_t i = 0; i < links_.size(); i++) {
    Attached& a = links_[i];
    if (!a.usable() || a.epoch > newest) continue;
    broke(*a.link, Cause::closed);
    lines_[static_cast<std::size_t>(a.path)].lost_silently = true;
  }
}

// Asks the receiver to fence every epoch that is over here, and to say what it has.
void Sender::say_open(Time now) {
  Attached* a = nullptr;  // the newest, or else the one that was heard last
  for (auto& l : links_)
    if (l.usable() && (!a || l.life == Life::opening || (a->life != Life::opening && l.heard > a->heard)))
      a = &l;
  if (!a) return;
  wire::Open o{open_sequence_ + 1, issued_, 0, {}};
  open_alive_.clear();
  auto name = [&](Epoch e) {
    open_alive_.push_back(e);
    if (o.n < wire::kEpochs) o.alive[o.n++] = e;
  };
  for (auto& l : links_)
    if (l.usable()) name(l.epoch);
  for (auto& l : lines_)
    if (l.dialling) name(l.dialling);
  now_ = now;
  open_sequence_++;
  open_issued_ = issued_;
  open_wanted_ = false;
  if (asked_since_ == kNever) asked_since_ = now;
  if (!say(*a, wire::write(o))) open_wanted_ = true;
}

void Sender::dial(int path) {
  auto& l = lines_[static_cast<std::size_t>(path)];
  l.dialling = ++issued_;
  attempts_++;
  dialer_.dial(path, l.dialling);
}

void Sender::manage(Time now) {
  if (open_wanted_) say_open(now);
  if (fail_if_overdue(now)) return;
  if (!any_usable()) dial_if_lost(now);
  else if (options_.stripe) {
    for (std::size_t i = 0; i < lines_.size(); i++) stripe_over(static_cast<int>(i), now);
  } else {
    come_home(now);
    retire_spares(now);
  }
}

// The order in which to try: home until it has flapped thrice of late, what just fell silent last.
std::vector<int> Sender::by_preference(Time now) const {
  std::vector<std::pair<double, int>> order;
  for (std::size_t i = 0; i < lines_.size(); i++) {
    const auto& l = lines_[i];
    double score = std::round(l.trust.flaps(now)) - (is_home(static_cast<int>(i)) ? 2.5 : 0) +
                   (l.lost_silently ? 100 : 0);
    order.emplace_back(score, static_cast<int>(i));
  }
  std::stable_sort(order.begin(), order.end());
  std::vector<int> r;
  r.reserve(order.size());
  for (auto& [score, i] : order) r.push_back(i);
  return r;
}

void Sender::dial_if_lost(Time now) {
  if (lost_since_ == kNever) lost_since_ = now;
  Duration stagger = state_ == State::connecting ? kStaggerAtFirst : kStagger;
  auto turns = (now - lost_since_) / stagger + 1;
  for (int path : by_preference(now)) {
    if (turns-- <= 0) return;
    const auto& l = lines_[static_cast<std::size_t>(path)];
    if (!l.dialling && l.trust.worth_a_dial(now)) dial(path);
  }
}

// Without a link, or with one that gives no answer, for too long.
bool Sender::fail_if_overdue(Time now) {
  Attached* a = usable_link();
  Time since = a ? asked_since_ : lost_since_;
  Duration deadline = state_ == State::connecting ? options_.connect_timeout : options_.flap_timeout;
  if (since == kNever || now - since <= deadline) return false;
  if (a) {
    char text[80];
    std::snprintf(text, sizeof text, " for %.1f s (%d attempts)", seconds(now - since), attempts_);
    fail({Code::remote, "connection " + name_ + ": the peer " + peer_ + " gave no answer over " +
                            a->link->describe() + text +
                            ": it could not confirm that the links which were lost are fenced; look at its "
                            "log, it may hang"},
         now);
  } else {
    fail_unreachable(now);
  }
  return true;
}

void Sender::fail_unreachable(Time now) {
  std::string rails;
  for (auto& l : lines_) rails += (rails.empty() ? "" : ", ") + l.path.name;
  char text[160];
  std::snprintf(text, sizeof text, " for %.1f s (%d attempts; limit %s): ", seconds(now - lost_since_),
                attempts_,
                state_ == State::connecting ? "MEGASCALE_CONNECT_TIMEOUT" : "MEGASCALE_FLAP_TIMEOUT");
  fail({Code::remote, "connection " + name_ + ": no path to the peer " + peer_ + text + "tried " + rails +
                          "; last trouble: " + (last_trouble_.empty() ? "no answer" : last_trouble_) +
                          "; look at cables, switches and routes between the two"},
       now);
}

// With traffic on a spare: try the home path once it has been well long enough.
void Sender::come_home(Time now) {
  for (auto& a : links_)
    if (a.usable() && is_home(a.path)) return;
  auto& home = lines_[0];
  if (home.dialling || !home.trust.worth_a_dial(now) || !home.trust.well_for(options_.return_hold, now))
    return;
  dial(0);
}

void Sender::stripe_over(int path, Time now) {
  for (auto& a : links_)
    if (a.usable() && a.path == path) return;
  auto& l = lines_[static_cast<std::size_t>(path)];
  if (l.dialling || !l.trust.worth_a_dial(now) || !l.trust.well_for(options_.return_hold, now)) return;
  dial(path);
}

bool Sender::carries_chunks(Epoch e) const {
  for (MessageId m = completed_; m < next_; m++) {
    const Slot& s = slots_[m % kWindow];
    uint64_t out = ones(Chunk{.total = s.size, .chunk_bytes = s.chunk_bytes}.count()) & ~s.todo & ~s.placed;
    for (; out; out &= out - 1)
      if (s.carrier[static_cast<std::size_t>(std::countr_zero(out))] == e) return true;
  }
  return false;
}

void Sender::retire_spares(Time now) {
  now_ = now;
  for (auto& a : links_)
    if (a.life == Life::retiring && !carries_chunks(a.epoch) && say(a, wire::write_leave()))
      drop(a, Cause::closed);
}

}  // namespace megascale
