#include "tests/unit/transport/rails/schedule.h"

#include <cstring>
#include <vector>

namespace megascale {
namespace {

constexpr std::byte kUnwritten{0xee}, kReused{0x5a}, kSent{0xa5};
constexpr std::size_t kBeside = 64;  // bytes behind each receive buffer, to be left alone
constexpr Duration kPatience = 30s;  // within which everything completes once the faults ceased
constexpr Duration kFlapTimeout = 100s;

// Fills memory with what nobody else would write: a sequence of its own for each message.
void fill(std::byte* to, std::size_t n, uint64_t salt) {
  Dice d(salt);
  for (std::size_t i = 0; i < n; i += 8) {
    uint64_t v = d.roll();
    std::memcpy(to + i, &v, std::min<std::size_t>(8, n - i));
  }
}

bool all(const std::vector<std::byte>& v, std::size_t from, std::size_t to, std::byte b) {
  for (std::size_t i = from; i < to; i++)
    if (v[i] != b) return false;
  return true;
}

class Schedule {
 public:
  Schedule(uint64_t seed, LeaveOut out);
  Verdict run();

 private:
  struct Message {
    std::size_t size = 0, capacity = 0;
    std::vector<std::byte> out, in;
    Request *send = nullptr, *receive = nullptr;
    bool sent = false, received = false;
  };

  static Faults some_faults(Dice&);
  static std::vector<Path> some_paths(Dice&);
  static ConnectionOptions some_options(Dice&, std::size_t paths, LeaveOut);
  std::size_t some_size();
  void plan_troubles();
  void trouble();
  void peace();
  void step();
  bool pausing(Time& until);
  void send_some();
  void receive_some();
  void reap_sends();
  void reap_receives();
  void judge(Message&, std::size_t index);
  void judge_at_last();
  void give(Verdict::Kind k, std::string what) {
    if (verdict_.good()) verdict_.kind = k, verdict_.what = std::move(what);
  }
  bool finished() const { return sent_ == messages_.size() && received_ == messages_.size(); }

  uint64_t seed_;
  FaultyWorld world_;
  Dice& dice_;
  FaultyDialer dialer_;
  ConnectionOptions options_;
  Sender sender_;
  Receiver receiver_;
  std::vector<Message> messages_;
  std::size_t to_send_ = 0, to_receive_ = 0;  // the next to be posted
  std::size_t sent_ = 0, received_ = 0;       // all below are done
  std::size_t most_sends_, most_receives_;    // outstanding
  double eager_to_send_, eager_to_receive_;   // how likely a post is at each step
  Duration quantum_;                          // how long nobody looks
  double pause_ = 0;                          // how likely a user pauses at each step
  Duration longest_pause_{};
  Time send_pause_{}, receive_pause_{};
  Time peace_at_;
  bool peaceful_ = false;
  Verdict verdict_;
};

Faults Schedule::some_faults(Dice& d) {
  Faults f;
  auto maybe = [&](double p, double most) { return d.chance(p) ? most * d.chance(0.5) + most / 4 : 0; };
  f.lose = maybe(0.4, 0.01);
  f.slow = maybe(0.5, 0.2);
  f.duplicate = maybe(0.6, 0.2);
  f.again = maybe(0.3, 0.2);
  f.break_inside = maybe(0.3, 0.01);
  f.nested = maybe(0.3, 0.2);
  f.lie = maybe(0.6, 0.5);
  f.repeat = maybe(0.5, 0.3);
  f.reset = d.chance(0.5) ? 1 : 0.3;
  f.reorder = d.chance(0.5);
  f.delay = d.between(2us, 100us);
  f.slowest = d.between(100us, 300ms);
  f.piece = d.chance(0.5) ? d.between(0us, 50us) : d.between(0us, 5ms);
  f.fence = d.chance(0.3) ? 0us : d.chance(0.8) ? d.between(0us, 5ms) : d.between(0us, 200ms);
  f.detection = d.between(100ms, 250ms);
  f.room = d.between(uint64_t{1}, uint64_t{16});
  return f;
}

std::vector<Path> Schedule::some_paths(Dice& d) {
  std::vector<Path> p;
  std::size_t n = d.between(uint64_t{1}, uint64_t{4});
  for (std::size_t i = 0; i < n; i++)
    p.push_back({"test rail " + std::to_string(i), "path" + std::to_string(i)});
  return p;
}

ConnectionOptions Schedule::some_options(Dice& d, std::size_t paths, LeaveOut out) {
  ConnectionOptions o;
  o.flap_timeout = o.connect_timeout = kFlapTimeout;
  o.return_hold = d.between(10ms, 500ms);
  o.smallest_chunk = d.chance(0.5) ? 128 : 256;
  o.stripe = paths > 1 && d.chance(0.5);
  if (o.stripe) o.homes = static_cast<int>(paths);
  o.leave_out = {out.fence, out.generation, out.duplicates};
  return o;
}

Schedule::Schedule(uint64_t seed, LeaveOut out)
    : seed_(seed),
      world_(seed),
      dice_(world_.dice),
      dialer_(world_, some_paths(dice_)),
      options_(some_options(dice_, dialer_.names().size(), out)),
      sender_(options_, "test", "there", dialer_, dialer_.names()),
      receiver_(options_, "test", "here", dialer_),
      messages_(dice_.between(uint64_t{8}, uint64_t{40})) {
  dialer_.connect(sender_, receiver_);
  world_.faults = some_faults(dice_);
  dialer_.faults = {0.1, 0.1, 0.1, 0.5, dice_.between(10us, 3ms), dice_.between(5ms, 200ms)};
  most_sends_ = dice_.between(uint64_t{1}, uint64_t{32});
  most_receives_ = dice_.between(uint64_t{1}, uint64_t{32});
  eager_to_send_ = dice_.chance(0.7) ? 0.9 : 0.1;
  eager_to_receive_ = dice_.chance(0.5) ? 0.9 : 0.1;
  quantum_ = dice_.between(1us, 60us);
  for (std::size_t i = 0; i < messages_.size(); i++) {
    auto& m = messages_[i];
    m.size = some_size();
    m.capacity = m.size + (dice_.chance(0.3) ? dice_.below(500) : 0);
    m.out.resize(m.size);
    fill(m.out.data(), m.size, seed * 1000 + i);
    m.in.assign(m.capacity + kBeside, kUnwritten);
  }
  pause_ = dice_.chance(0.7) ? 0.05 : 0;
  longest_pause_ = dice_.chance(0.8) ? dice_.between(0us, 5ms) : dice_.between(0us, 50ms);
  plan_troubles();
}

std::size_t Schedule::some_size() {
  switch (dice_.below(10)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return dice_.between(uint64_t{1}, uint64_t{128});
    case 3:
    case 4:
      return dice_.between(uint64_t{1}, Sender::kEager);
    case 5:
      return Sender::kEager + dice_.below(2);
    case 6:
      return dice_.between(uint64_t{8}, uint64_t{64}) * 256;
    default:
      return dice_.between(Sender::kEager, uint64_t{12000});
  }
}

// Most of the traffic takes some milliseconds, and so do most of the troubles.
void Schedule::plan_troubles() {
  peace_at_ = world_.time.now() + (dice_.chance(0.7) ? dice_.between(5ms, 60ms) : dice_.between(50ms, 1s));
  auto n = dice_.between(uint64_t{1}, uint64_t{12});
  for (uint64_t i = 0; i < n; i++)
    world_.time.at(world_.time.now() + dice_.between(0us, peace_at_ - world_.time.now()),
                   [this] { trouble(); });
  world_.time.at(peace_at_, [this] { peace(); });
}

void Schedule::trouble() {
  if (peaceful_) return;
  // Troubles come in company: the next one meets the repair of this one.
  if (dice_.chance(0.5))
    world_.time.after(dice_.between(0us, 3 * dialer_.faults.slowest + world_.faults.fence),
                      [this] { trouble(); });
  auto wires = dialer_.wires();
  switch (dice_.below(6)) {
    case 0: {  // a path goes down for a while
      auto p = dice_.below(dialer_.names().size());
      dialer_.path_down(p);
      Duration d = dice_.chance(0.5) ? dice_.between(0us, 20ms) : dice_.between(10ms, 800ms);
      world_.time.after(d, [=, this] { dialer_.path_up(p); });
      return;
    }
    case 1:  // an interface goes, here or there
      if (dice_.chance(0.5)) sender_.rail_lost("test rail 0", Cause::interface_gone, world_.time.now());
      else receiver_.rail_lost("test rail 0", Cause::address_gone, world_.time.now());
      return;
    default:
      if (wires.empty()) return;
      auto& w = *wires[dice_.below(wires.size())];
      auto which = dice_.below(3);
      if (which != 0) w.break_end(Side::receiving, Cause::kernel_error);
      if (which != 1) w.break_end(Side::sending, Cause::kernel_error);
  }
}

void Schedule::peace() {
  peaceful_ = true;
  for (std::size_t i = 0; i < dialer_.names().size(); i++) dialer_.path_up(i);
  auto& f = world_.faults;
  f.lose = f.slow = f.again = f.break_inside = f.nested = 0;
  dialer_.faults.fail = dialer_.faults.only_here = dialer_.faults.only_there = 0;
}

// Users compute between their messages, so that most troubles find something under way.
bool Schedule::pausing(Time& until) {
  if (world_.time.now() < until) return true;
  if (!dice_.chance(pause_)) return false;
  until = world_.time.now() + dice_.between(0us, longest_pause_);
  return true;
}

void Schedule::send_some() {
  if (pausing(send_pause_)) return;
  while (to_send_ < messages_.size() && to_send_ - sent_ < most_sends_ && dice_.chance(eager_to_send_)) {
    Message& m = messages_[to_send_];
    m.send = sender_.post(m.size ? m.out.data() : nullptr, m.size, this, world_.time.now());
    if (!m.send) return;
    to_send_++;
  }
}

void Schedule::receive_some() {
  if (pausing(receive_pause_)) return;
  while (to_receive_ < messages_.size() && to_receive_ - received_ < most_receives_ &&
         dice_.chance(eager_to_receive_)) {
    Message& m = messages_[to_receive_];
    m.receive = receiver_.post(m.capacity ? m.in.data() : nullptr, m.capacity, this, world_.time.now());
    if (!m.receive) return;
    to_receive_++;
  }
}

// Once a send is done its buffer is the user's again, who writes to it.
void Schedule::reap_sends() {
  for (std::size_t i = sent_; i < to_send_; i++) {
    Message& m = messages_[i];
    if (m.sent || !m.send->done) continue;
    m.sent = true;
    m.send->busy = false;
    std::fill(m.out.begin(), m.out.end(), kSent);
  }
  while (sent_ < to_send_ && messages_[sent_].sent) sent_++;
}

void Schedule::reap_receives() {
  while (received_ < to_receive_ && messages_[received_].receive->done) {
    judge(messages_[received_], received_);
    received_++;
  }
  for (std::size_t i = received_; i < to_receive_; i++)
    if (messages_[i].receive->done)
      give(Verdict::Kind::wrong_bytes, "a message completed before an earlier one");
}

void Schedule::judge(Message& m, std::size_t index) {
  if (m.receive->size != m.size)
    give(Verdict::Kind::wrong_bytes, "message " + std::to_string(index) + " has another size");
  std::vector<std::byte> sent(m.size);
  fill(sent.data(), m.size, seed_ * 1000 + index);
  if (m.size && std::memcmp(sent.data(), m.in.data(), m.size) != 0) {
    std::size_t i = 0;
    while (sent[i] == m.in[i]) i++;
    give(Verdict::Kind::wrong_bytes, "message " + std::to_string(index) + " of " + std::to_string(m.size) +
                                         " bytes is wrong from byte " + std::to_string(i));
  }
  if (!all(m.in, m.size, m.in.size(), kUnwritten))
    give(Verdict::Kind::written_beside, "bytes behind message " + std::to_string(index) + " were written");
  std::fill(m.in.begin(), m.in.end(), kReused);
  m.receive->busy = false;
  m.received = true;
}

void Schedule::judge_at_last() {
  for (std::size_t i = 0; i < messages_.size(); i++)
    if (messages_[i].received && !all(messages_[i].in, 0, messages_[i].in.size(), kReused))
      give(Verdict::Kind::written_after,
           "the buffer of message " + std::to_string(i) + " was written after the message was complete");
  if (world_.happened.destroyed_unfenced)
    give(Verdict::Kind::broken_rule, "a link was destroyed before its fence took effect");
}

void Schedule::step() {
  Time next = std::min({world_.time.next(), sender_.next_deadline(), receiver_.next_deadline()});
  next = std::max(next, world_.time.now()) + dice_.between(Duration(1us), quantum_);
  world_.time.pass_until(next);
  if (dice_.chance(0.8)) sender_.progress(next);
  if (dice_.chance(0.8)) receiver_.progress(next);
  reap_sends();
  reap_receives();
  send_some();
  receive_some();
}

Verdict Schedule::run() {
  auto failed = [&] {
    return sender_.state() == Connection::State::failed || receiver_.state() == Connection::State::failed;
  };
  while (!(finished() && sender_.all_acknowledged()) && verdict_.good() && !failed()) {
    if (world_.time.now() > peace_at_ + kPatience) {
      give(Verdict::Kind::stuck, "after the faults had ceased, " + std::to_string(sent_) + " of " +
                                     std::to_string(messages_.size()) + " messages were sent, " +
                                     std::to_string(received_) + " received");
      break;
    }
    step();
  }
  if (failed())
    give(Verdict::Kind::failed,
         sender_.error().failed() ? sender_.error().message : receiver_.error().message);
  sender_.close(wire::Reason::closed, world_.time.now());
  // Whatever is still on its way may arrive now.
  for (Time end = world_.time.now() + 1s; world_.time.next() < end && world_.time.now() < end;) step();
  judge_at_last();
  verdict_.happened = world_.happened;
  verdict_.messages = messages_.size();
  world_.over = true;
  world_.time.forget_all();
  return verdict_;
}

}  // namespace

Verdict run_schedule(uint64_t seed, LeaveOut out) { return Schedule(seed, out).run(); }

}  // namespace megascale
