// Drives a communicator's connections: whoever waits for an operation pushes all of them along, and a thread
// takes over while nobody waits and something is under way.
//
// The first network error ends everything: each outstanding operation gets it, every rank is told, and the
// connections are closed at once.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "plugin/host/connect.h"
#include "plugin/host/lane.h"
#include "plugin/host/loader.h"
#include "plugin/host/operation.h"
#include "plugin/host/registrar.h"
#include "plugin/host/rendezvous.h"

namespace megascale::host {

struct EngineOptions {
  int rank = 0;
  int ranks = 1;
  size_t chunk = 0;
  bool progress_thread = true;
  std::chrono::seconds stall_timeout{1800};
};

class Engine {
 public:
  Engine(std::unique_ptr<Rendezvous>, std::unique_ptr<NetContext>, Wires, const EngineOptions&);
  ~Engine();

  size_t rings() const { return rings_.size(); }
  Registrar& registrar() { return registrar_; }
  Net& net() const { return context_->net(); }

  struct Ring {
    Ring(Net& net, const Wires::RingWire& wire, int rank, int next, int previous)
        : send(net, wire.to_next, next, rank, nullptr),
          receive(net, wire.from_previous, previous, rank, nullptr) {}
    SendLane send;
    ReceiveLane receive;
    std::unique_ptr<Scratch> scratch;  // made at the first reduction
  };
  Ring& ring(size_t index) { return *rings_[index]; }
  SendLane& to_rank(int rank) { return *to_rank_[static_cast<size_t>(rank)]; }
  ReceiveLane& from_rank(int rank) { return *from_rank_[static_cast<size_t>(rank)]; }
  void need_scratch();

  // Begins an operation. A lane is null where the task has no steps for it. Throws NetworkError when aborted.
  struct Placed {
    std::unique_ptr<Task> task;
    SendLane* send = nullptr;
    ReceiveLane* receive = nullptr;
  };
  void submit(const std::shared_ptr<Operation>&, std::vector<Placed>);
  // Messages of a rank to itself meet here, in order.
  void submit_to_self(const std::shared_ptr<Operation>&, const void* send, void* receive, size_t bytes);

  bool progress();  // false when nothing moved or another thread is at it
  void wait(const Operation&);
  static void check(const Operation&);  // throws when it failed
  void throw_if_aborted();
  void abort(int culprit, const std::string& what);
  void shut_down();  // ends what is outstanding, closes everything

 private:
  struct Letter {
    std::shared_ptr<Operation> operation;
    const void* data;
    void* place;
    size_t bytes;
  };

  bool progress_locked();
  void settle();
  void finish(Operation&);
  void fail_locked(int culprit, const std::string& what);
  void lost(const LaneError&);
  void close_locked();
  void background();
  void wake();

  const EngineOptions options_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<NetContext> context_;
  Registrar registrar_;
  Wires wires_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::unique_ptr<SendLane>> to_rank_;
  std::vector<std::unique_ptr<ReceiveLane>> from_rank_;
  std::mutex scratch_mutex_;

  std::mutex mutex_;  // for the lanes and what follows
  std::vector<std::shared_ptr<Operation>> outstanding_;
  std::vector<Task*> complete_;
  std::deque<Letter> self_sends_, self_receives_;
  bool closed_ = false;
  int culprit_ = -1;
  std::string failure_;

  std::atomic<size_t> busy_ = 0;     // outstanding operations
  std::atomic<uint64_t> moves_ = 0;  // progress calls that moved something
  std::atomic<int> waiting_ = 0;     // threads that are pushing

  std::mutex thread_mutex_;
  std::condition_variable thread_wakes_;
  bool parked_ = false;  // the thread sleeps until it is woken
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace megascale::host
