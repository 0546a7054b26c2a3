#include "transport/session/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "transport/base/events.h"
#include "transport/base/log.h"
#include "transport/session/random.h"

namespace megascale {
namespace {

constexpr Duration kTick = 10ms;        // how soon the thread notices that a caller has gone quiet
constexpr Duration kCloseWithin = 10s;  // last words of a connection that its caller is done with
constexpr Duration kStopWithin = 1s;    // the same, when the whole process ends
constexpr std::size_t kMostWays = 8;

uint64_t random_number() {
  uint64_t r = 0;
  (void)random_bytes({reinterpret_cast<uint8_t*>(&r), sizeof r});  // start() has seen it work
  return r;
}

}  // namespace

Time now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Time(Duration(t.tv_sec * 1'000'000'000 + t.tv_nsec));
}

// ---- beginning and end ----

Process::Process(const Settings& s) : settings_(s) {}

Result<std::unique_ptr<Process>> Process::start(const Settings& s, std::vector<tcp::Rail> rails) {
  std::unique_ptr<Process> p(new Process(s));
  p->rails_ = std::move(rails);
  if (auto ok = p->open(); !ok) return ok.error();
  return p;
}

Result<void> Process::open() {
  if (rails_.empty()) {
    auto rails = tcp::find_rails(settings_);
    if (!rails) return rails.error();
    rails_ = std::move(rails).value();
  }
  for (const auto& r : rails_) {
    rail_states_.push_back(tcp::state_of(r));
    statistics_for(r.name);
  }
  tuning_ = tcp::choose_tuning(settings_);
  auto incarnation = new_incarnation();
  if (!incarnation) return incarnation.error();
  incarnation_ = *incarnation;
  auto listening = tcp::listen_everywhere(port_);
  if (!listening) return listening.error();
  listening_ = std::move(listening).value();
  epoll_ = tcp::Socket(epoll_create1(EPOLL_CLOEXEC));
  wake_ = tcp::Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  on_wake_.process = on_listen_.process = on_netlink_.process = this;
  on_wake_.what = &Process::drain_wake;
  on_listen_.what = &Process::accept_strangers;
  on_netlink_.what = &Process::read_netlink;
  if (!epoll_ || !wake_ || !watch(wake_.fd(), &on_wake_, false, false) ||
      !watch(listening_.fd(), &on_listen_, false, true))
    return Error{Code::system, std::string("cannot set up the thread's epoll: ") + strerror(errno)};
  if (netlink_.descriptor() >= 0) watch(netlink_.descriptor(), &on_netlink_, false, false);
  return start_thread();
}

Result<void> Process::start_thread() {
  sigset_t every, before;  // the application's signals are none of this thread's business
  sigfillset(&every);
  pthread_sigmask(SIG_BLOCK, &every, &before);
  Result<void> ok;
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "megascale");
  } catch (const std::system_error& x) {
    ok =
        Error{Code::system, std::string("cannot start the thread that looks after connections: ") + x.what() +
                                "; look at the limits on processes and threads (ulimit -u, pids.max)"};
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return ok;
}

Process::~Process() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    end_by_ = now() + kStopWithin;
    for (auto& [id, e] : endpoints_) {
      if (e->closing_) continue;
      e->close_by_ = kNever;  // end_by_ comes first
      e->closing_ = true;
    }
    lock.unlock();
    wake();
    lock.lock();
    ended_.wait_for(lock, kStopWithin + 500ms, [this] { return endpoints_.empty(); });
  }
  stopping_ = true;
  wake();
  thread_.join();
}

bool Process::watch(int fd, Waiter* w, bool out, bool once) {
  epoll_event e{};
  e.events = EPOLLIN | (out ? EPOLLOUT : 0u) | (once ? EPOLLONESHOT : 0u);
  e.data.ptr = w;
  if (!epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, fd, &e)) return true;
  return errno == ENOENT && !epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &e);
}

// Before its waiter goes: a child between fork and exec may hold the socket open, and with it its place in
// epoll.
void Process::unwatch(int fd) {
  if (fd >= 0) epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
}

// ---- what callers ask for ----

ConnectionOptions Process::options(int homes) const {
  ConnectionOptions o;
  o.flap_timeout = settings_.flap_timeout;
  o.connect_timeout = settings_.connect_timeout;
  o.return_hold = settings_.return_hold;
  o.ping_after = settings_.flap_detect;
  o.smallest_chunk = settings_.chunk;
  o.stripe = settings_.stripe || homes > 1;
  o.homes = homes;
  return o;
}

std::string Process::peer_name(uint64_t incarnation, const tcp::Address& a) const {
  return "process " + std::to_string(process_id_of(incarnation)) + " at " + a.text();
}

uint64_t Process::listen(const std::vector<int>& homes, void* owner, void* handle128) {
  Handle h;
  h.port = port_;
  h.incarnation = incarnation_;
  h.nonce = random_number();
  h.homes = static_cast<uint8_t>(homes.size());
  for (int i : homes) h.addresses.push_back(rails_[static_cast<std::size_t>(i)].address);
  for (std::size_t i = 0; i < rails_.size(); i++)
    if (std::find(homes.begin(), homes.end(), static_cast<int>(i)) == homes.end())
      h.addresses.push_back(rails_[i].address);
  std::lock_guard lock(mutex_);
  uint64_t id = h.listener = next_id_++;
  listeners_[id] = {homes, owner, h.nonce, {}, {}, {}};
  h.write(handle128);
  return id;
}

Time Process::accepting_since(uint64_t listener) {
  std::lock_guard lock(mutex_);
  auto l = listeners_.find(listener);
  return l == listeners_.end() ? Time{} : l->second.accepting_since;
}

Endpoint* Process::accept(uint64_t listener) {
  std::lock_guard lock(mutex_);
  auto l = listeners_.find(listener);
  if (l == listeners_.end()) return nullptr;
  Time& since = l->second.accepting_since;
  if (l->second.arrived.empty()) {
    if (since == Time{}) since = now();
    return nullptr;
  }
  since = {};
  auto e = endpoints_.find(l->second.arrived.front());
  l->second.arrived.pop_front();
  return e == endpoints_.end() ? nullptr : e->second.get();
}

void Process::close_listener(uint64_t listener) {
  std::deque<uint64_t> orphans;
  {
    std::lock_guard lock(mutex_);
    auto l = listeners_.find(listener);
    if (l == listeners_.end()) return;
    orphans = std::move(l->second.arrived);
    listeners_.erase(l);
  }
  for (uint64_t id : orphans)
    if (Endpoint* e = find(id)) close(e);
}

// From which rail to which address: home to home first, unless the two are of different subnets and the peer
// has an address in ours, for rails are not to be crossed. Then each other address of the peer from the rail
// that shares its subnet, else from the rail of the same number.
std::vector<Way> Process::ways_to(const Handle& h, const std::vector<int>& homes) const {
  std::vector<Way> ways;
  auto near = [&](int i, std::size_t j) {
    const auto& r = rails_[static_cast<std::size_t>(i)];
    return h.addresses[j].same_subnet(r.address, r.prefix);
  };
  auto add = [&](int rail, std::size_t to) {
    const auto& a = h.addresses[to];
    if (ways.size() >= kMostWays || a.family() != rails_[static_cast<std::size_t>(rail)].address.family())
      return;
    for (const auto& w : ways)
      if (w.to.same_host(a)) return;
    ways.push_back({rail, a});
  };
  for (std::size_t i = 0; i < homes.size(); i++) {
    std::size_t to = std::min<std::size_t>(i, h.homes - 1u);
    for (std::size_t j = 0; j < h.addresses.size() && !near(homes[i], to); j++)
      if (near(homes[i], j)) to = j;
    add(homes[i], to);
  }
  for (std::size_t j = 0; j < h.addresses.size(); j++) {
    int best = static_cast<int>(j % rails_.size());
    for (int i = 0; i < static_cast<int>(rails_.size()) && !near(best, j); i++)
      if (near(i, j)) best = i;
    add(best, j);
  }
  return ways;
}

Endpoint* Process::connect(const Handle& h, const std::vector<int>& homes, void* owner) {
  PeerIdentity peer{h.incarnation, h.addresses, h.listener, h.nonce, incarnation_, 0};
  auto ways = ways_to(h, homes);
  if (ways.empty()) return nullptr;
  std::vector<Path> paths;
  for (const auto& w : ways) {
    const auto& r = rails_[static_cast<std::size_t>(w.rail)];
    paths.push_back({r.name, r.name + " " + r.address.text() + " -> " + w.to.text()});
  }
  Endpoint* e;
  {
    std::lock_guard lock(mutex_);
    peer.instance = next_instance_++;
    uint64_t id = next_id_++;
    auto made = std::make_unique<Endpoint>(*this, id, owner, std::move(peer),
                                           options(static_cast<int>(std::min(homes.size(), ways.size()))),
                                           std::move(ways), std::move(paths));
    e = made.get();
    endpoints_[id] = std::move(made);
  }
  Entered in(*e);
  e->connection().progress(now());  // dials
  return e;
}

Endpoint* Process::find(uint64_t id) {
  std::lock_guard lock(mutex_);
  auto e = endpoints_.find(id);
  return e == endpoints_.end() ? nullptr : e->second.get();
}

std::vector<Endpoint*> Process::all() {
  std::lock_guard lock(mutex_);
  std::vector<Endpoint*> r;
  for (auto& [id, e] : endpoints_) r.push_back(e.get());
  return r;
}

void Process::close(Endpoint* e) {
  {
    Entered in(*e);
    Connection& c = e->connection();
    Time t = now();
    if (e->receiver() && c.state() == Connection::State::open && !c.outstanding()) e->receiver()->part(t);
    if (!e->words_left()) {
      c.close(c.outstanding() && c.state() == Connection::State::open ? wire::Reason::aborted
                                                                      : wire::Reason::closed,
              t);
      c.progress(t);
    }
    e->close_by_ = t + kCloseWithin;
    e->closing_ = true;
  }
  wake();
}

void Process::close_owned(void* owner) {
  std::vector<uint64_t> listeners;
  std::vector<Endpoint*> ends;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, l] : listeners_)
      if (l.owner == owner) listeners.push_back(id);
  }
  for (uint64_t id : listeners) close_listener(id);
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, e] : endpoints_)  // those that are closing are the thread's: it may free them at any time
      if (e->owner() == owner && !e->closing_) ends.push_back(e.get());
  }
  for (Endpoint* e : ends) close(e);
}

// ---- the thread ----

void Process::wake() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(wake_.fd(), &one, sizeof one);
}

void Process::drain_wake(Time) {
  uint64_t n;
  [[maybe_unused]] ssize_t r = read(wake_.fd(), &n, sizeof n);
}

void Process::ask(Ask a) {
  {
    std::lock_guard lock(asks_mutex_);
    asks_.push_back(a);
  }
  wake();
}

void Process::run() {
  while (!stopping_) turn();
}

void Process::turn() {
  epoll_event events[64];
  int wait = static_cast<int>(kTick / 1ms);
  survive([&] { wait = timeout(); });
  int n = epoll_wait(epoll_.fd(), events, 64, wait);
  asleep_ = false;
  Time t = now();
  for (int i = 0; i < n; i++) survive([&] { static_cast<Waiter*>(events[i].data.ptr)->ready(t); });
  survive([&] { do_asks(t); });
  if (t >= next_tick_) {
    next_tick_ = t + kTick;
    survive([&] { tick(t); });
  }
  survive([&] { reap(t); });
}

// No memory is no reason to end somebody's process: what was under way has its deadline, and the thread goes
// on.
template <class F>
void Process::survive(F&& f) {
  try {
    f();
  } catch (const std::exception& x) {
    if (now() - complained_ < 1s) return;
    complained_ = now();
    logf(Level::warn, "looking after connections: %s; it is tried again", x.what());
  }
}

// How long to sleep: to the next tick while there is anything to look after, else until somebody calls.
int Process::timeout() {
  constexpr int kTickMs = static_cast<int>(kTick / 1ms);
  if (!outgoing_.empty() || !incoming_.empty() || listening_rests_) return kTickMs;
  asleep_ = true;  // seen by callers from here on: what they do after this wakes the thread
  for (Endpoint* e : all()) {
    bool rests = e->armed_ && e->calls() == e->seen_calls_ && !e->closing_;
    if (rests) {
      IfFree in(*e);  // if not, its caller may be about to leave something behind
      rests = in && !e->connection().needs_care();
    }
    if (!rests) {
      asleep_ = false;
      return kTickMs;
    }
  }
  std::lock_guard lock(asks_mutex_);
  return asks_.empty() ? -1 : 0;
}

void Process::do_asks(Time t) {
  std::vector<Ask> asks;
  {
    std::lock_guard lock(asks_mutex_);
    asks.swap(asks_);
  }
  for (const Ask& a : asks) {
    Endpoint* e = find(a.endpoint);
    if (a.what == Ask::What::give_up) {
      for (auto& o : outgoing_)
        if (o->endpoint == a.endpoint && o->epoch == a.epoch && o->purpose == Purpose::link) o->done = true;
    } else if (!e) {
      continue;
    } else if (a.what == Ask::What::dial) {
      dial(*e, a.path, a.epoch, Purpose::link, t);
    } else if (e->checks_under_way_ == 0) {
      for (int w = 0; w < static_cast<int>(e->ways().size()); w++) dial(*e, w, a.epoch, Purpose::probe, t);
    }
  }
}

// Every few milliseconds: drives the endpoints whose callers have not called since the last time.
void Process::tick(Time t) {
  if (listening_rests_) accept_strangers(t);
  for (Endpoint* e : all()) {
    uint32_t calls = e->calls();
    bool quiet = calls == e->seen_calls_;
    e->seen_calls_ = calls;
    if (!quiet && !e->closing_) continue;
    IfFree in(*e);
    // When armed, the kernel will tell what comes; only time has to be looked after.
    bool rests = !in || (e->armed_ && !e->closing_ && !e->connection().needs_care());
    if (!rests) drive(*e, t);
  }
}

void Process::drive(Endpoint& e, Time t) {
  e.connection().progress(t);
  if (!e.closing_) arm(e);
}

void Process::arm(Endpoint& e) {
  Waiter* w = e.waiter_.get();
  e.armed_ = true;
  e.connection().each_link([&](const Link& l) {
    if (l.descriptor() >= 0) watch(l.descriptor(), w, l.wants_out(), true);
  });
}

// Something came for an endpoint that was quiet. If its caller is back, it is the caller's.
void Process::woken(Endpoint& e, Time t) {
  e.armed_ = false;
  if (e.calls() != e.seen_calls_) return;
  if (IfFree in(e); in) drive(e, t);
}

// Whether it is over, so that nobody but us knows it any more.
bool Process::finish_closing(Endpoint& e, Time t) {
  IfFree in(e);
  if (!in) return false;
  Connection& c = e.connection();
  Time close_by = std::min(e.close_by_, end_by_.load());
  c.progress(t);
  bool words_left = e.words_left() && t < close_by;
  if (!words_left) c.close(wire::Reason::closed, t);
  c.progress(t);
  return (c.settled() && !words_left) || t >= close_by + kStopWithin;
}

void Process::bury(Endpoint& e) {
  for (auto& o : outgoing_)
    if (o->endpoint == e.id()) o->done = true;
  e.connection().each_link([&](const Link& l) { unwatch(l.descriptor()); });
  std::lock_guard lock(mutex_);
  endpoints_.erase(e.id());
  ended_.notify_all();
}

void Process::reap(Time t) {
  std::erase_if(outgoing_, [&](auto& o) {
    if (!o->done && t >= o->talk.deadline()) finished(*o, Talk::Outcome::talking, t);
    if (!o->done) return false;
    unwatch(o->talk.fd());
    if (o->purpose == Purpose::probe)
      if (Endpoint* e = find(o->endpoint)) e->checks_under_way_--;
    return true;
  });
  std::erase_if(incoming_, [&](auto& i) {
    if (!i->done && t >= i->talk.deadline()) {
      count(statistics_for(rails_[static_cast<std::size_t>(i->rail)].name).handshakes_refused);
      i->done = true;
    }
    if (i->done) unwatch(i->talk.fd());
    return i->done;
  });
  for (Endpoint* e : all())
    if (e->closing_ && finish_closing(*e, t)) bury(*e);
}

}  // namespace megascale
