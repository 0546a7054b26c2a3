// What one process has: its rails, the port on which peers find it, its endpoints, and the one thread that
// sleeps until it is needed. It makes links (dials, accepts, authenticates), hears of lost rails, asks after
// peers' processes, and drives the endpoints whose callers have gone quiet.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "transport/base/settings.h"
#include "transport/session/endpoint.h"
#include "transport/session/handle.h"
#include "transport/session/talk.h"
#include "transport/tcp/netlink.h"
#include "transport/tcp/rail.h"
#include "transport/tcp/socket.h"

namespace megascale {

Time now();  // CLOCK_MONOTONIC

class Process {
 public:
  // `rails`: those of an earlier Process, whose order is to stay; empty: they are looked for.
  static Result<std::unique_ptr<Process>> start(const Settings&, std::vector<tcp::Rail> rails = {});
  ~Process();  // ends the thread and every connection; waits at most a second for last words
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Settings& settings() const { return settings_; }
  const std::vector<tcp::Rail>& rails() const { return rails_; }
  const tcp::Tuning& tuning() const { return tuning_; }
  uint64_t incarnation() const { return incarnation_; }

  // None of these waits. `homes`: the rails of the device; `owner`: whose end close_owned() is about.
  uint64_t listen(const std::vector<int>& homes, void* owner, void* handle128);
  // Null: nobody has dialled yet.
  Endpoint* accept(uint64_t listener);
  Time accepting_since(uint64_t listener);  // in vain
  void close_listener(uint64_t listener);
  Endpoint* connect(const Handle&, const std::vector<int>& homes, void* owner);
  Endpoint* find(uint64_t id);
  // Everything that touches the caller's memory has ended when this returns. Last words are said by the
  // thread.
  void close(Endpoint*);
  void close_owned(void* owner);

 private:
  friend class Endpoint;

  struct Listener {
    std::vector<int> homes;
    void* owner = nullptr;
    uint64_t nonce = 0;
    Time accepting_since{};                            // in vain; zero: not
    std::deque<uint64_t> arrived;                      // endpoints that nobody accepted yet
    std::set<std::pair<uint64_t, uint32_t>> admitted;  // incarnation and instance of all that ever came
  };
  struct Ask {
    enum class What : uint8_t { dial, give_up, check } what;
    uint64_t endpoint;
    int path;
    Epoch epoch;  // to dial or to give up; of a check: the newest that the receiver saw, and lost
  };
  struct Outgoing : Waiter {
    Process* process;
    Talk talk;
    uint64_t endpoint;
    int path;
    Epoch epoch;
    Purpose purpose;
    bool connected = false, done = false;
    Outgoing(Process* p, Talk t, uint64_t e, int w, Epoch ep, Purpose pu)
        : process(p), talk(std::move(t)), endpoint(e), path(w), epoch(ep), purpose(pu) {}
    void ready(Time now) override { process->pump(*this, now); }
  };
  struct Incoming : Waiter {
    Process* process;
    Talk talk;
    int rail;
    tcp::Address from;
    uint64_t endpoint = 0;  // once it was decided
    bool done = false;
    Incoming(Process* p, Talk t, int r, tcp::Address f) : process(p), talk(std::move(t)), rail(r), from(f) {}
    void ready(Time now) override { process->pump(*this, now); }
  };
  // What epoll wakes for the links of an endpoint.
  struct EndpointWaiter : Waiter {
    Process* process;
    Endpoint* endpoint;
    EndpointWaiter(Process* p, Endpoint* e) : process(p), endpoint(e) {}
    void ready(Time t) override { process->woken(*endpoint, t); }
  };

  explicit Process(const Settings&);
  Result<void> open();
  Result<void> start_thread();
  void run();
  void turn();
  template <class F>
  void survive(F&&);
  int timeout();
  void wake();
  void ask(Ask);
  void do_asks(Time now);
  void tick(Time now);
  void drive(Endpoint&, Time now);
  void arm(Endpoint&);
  void woken(Endpoint&, Time now);
  bool finish_closing(Endpoint&, Time now);
  void bury(Endpoint&);
  void reap(Time now);

  void dial(Endpoint&, int way, Epoch, Purpose, Time now);
  void pump(Outgoing&, Time now);
  void finished(Outgoing&, Talk::Outcome, Time now);
  void turned_down(Endpoint&, const Outgoing&, const Refusal&, Time now);
  void refused_by_host(Endpoint&, int way, Time now);
  void accept_strangers(Time now);
  void make_room_for_strangers();
  void pump(Incoming&, Time now);
  void decide(Incoming&, Time now);
  Endpoint* find(const HelloFields&);
  RefusalReason admit(Incoming&, const HelloFields&, Time now);
  void hand_over(Incoming&, Time now);
  void count_refusal(int rail, const Refusal&, const tcp::Address& from);
  void read_netlink(Time now);
  void rail_changed(std::size_t rail, tcp::RailState, Time now);
  HelloFields hello_for(const Endpoint&, Purpose, Epoch, int rail) const;
  ConnectionOptions options(int homes) const;
  std::vector<Way> ways_to(const Handle&, const std::vector<int>& homes) const;
  std::string peer_name(uint64_t incarnation, const tcp::Address&) const;
  std::vector<Endpoint*> all();
  bool watch(int fd, Waiter*, bool out, bool once);
  void unwatch(int fd);

  const Settings settings_;
  std::vector<tcp::Rail> rails_;
  std::vector<tcp::RailState> rail_states_;
  tcp::Tuning tuning_;
  uint64_t incarnation_ = 0;
  uint16_t port_ = 0;
  tcp::Socket epoll_, wake_, listening_;
  tcp::Netlink netlink_;
  struct Simple : Waiter {
    Process* process = nullptr;
    void (Process::*what)(Time) = nullptr;
    void ready(Time t) override { (process->*what)(t); }
  } on_wake_, on_listen_, on_netlink_;
  void drain_wake(Time);

  std::mutex
      mutex_;  // of the two maps and the numbers; may be taken inside an endpoint's lock, never around it
  std::condition_variable ended_;
  std::map<uint64_t, std::unique_ptr<Endpoint>> endpoints_;
  std::map<uint64_t, Listener> listeners_;
  uint64_t next_id_ = 1;
  uint32_t next_instance_ = 1;

  std::mutex asks_mutex_;
  std::vector<Ask> asks_;

  std::vector<std::unique_ptr<Outgoing>> outgoing_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
  Time next_tick_{}, complained_{};
  bool listening_rests_ = false;      // no descriptors are left for who comes
  std::atomic<Time> end_by_{kNever};  // last words are over then, for all
  std::atomic<bool> asleep_{false}, stopping_{false};
  std::thread thread_;
};

}  // namespace megascale
