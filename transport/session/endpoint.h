// One end of a connection as a caller holds it: a Sender or a Receiver, its peer, and the lock that says who
// drives it. The caller drives it from isend, irecv and test; when the caller has gone quiet, the process's
// sleeping thread does.
#pragma once
#include <atomic>
#include <memory>
#include <variant>
#include <vector>

#include "transport/rails/receiver.h"
#include "transport/rails/sender.h"
#include "transport/session/handshake_wire.h"
#include "transport/session/talk.h"
#include "transport/tcp/address.h"

namespace megascale {

class Process;

// Whom a connection leads to, and which connection it is.
struct PeerIdentity {
  uint64_t incarnation = 0;
  std::vector<tcp::Address> addresses;  // where its process listens, each with the port
  uint64_t listener = 0, nonce = 0;     // of the handle
  uint64_t dialler = 0;                 // incarnation of the process that dials
  uint32_t instance = 0;                // its number for the connection
};

// A way to the peer: from one of our rails to one of its addresses.
struct Way {
  int rail = 0;
  tcp::Address to;
};

class Endpoint final : public Dialer {
 public:
  // A sender knows its ways from the start; a receiver is dialled.
  Endpoint(Process&, uint64_t id, void* owner, PeerIdentity, const ConnectionOptions&, std::vector<Way>,
           std::vector<Path>);

  uint64_t id() const { return id_; }
  void* owner() const { return owner_; }
  const PeerIdentity& peer() const { return peer_; }
  const std::vector<Way>& ways() const { return ways_; }

  // The lock. It spans only what does not wait. A caller that finds it taken tries again later.
  bool try_enter() { return !busy_.exchange(true, std::memory_order_acquire); }
  void enter();  // for whoever cannot try again: waits for a few microseconds
  void leave() { busy_.store(false, std::memory_order_release); }
  // The caller shows that it is awake; wakes the thread if that sleeps without a timer.
  void called();
  // In one order with the thread's word that it sleeps: one of the two sees the other.
  uint32_t calls() const { return calls_.load(std::memory_order_seq_cst); }

  // Inside the lock:
  Connection& connection() { return *connection_; }
  Sender* sender() { return sender_; }
  Receiver* receiver() { return receiver_; }
  // Whether the other end is still to hear something, although the caller is done.
  bool words_left() const;

  // Dialer, called inside the lock
  void dial(int path, Epoch) override;
  void give_up(Epoch) override;
  void check_peer() override;

 private:
  friend class Process;

  Process& process_;
  const uint64_t id_;
  void* const owner_;
  const PeerIdentity peer_;
  const std::vector<Way> ways_;
  std::unique_ptr<Waiter> waiter_;  // what epoll wakes for its links
  std::unique_ptr<Connection> connection_;
  Sender* sender_ = nullptr;
  Receiver* receiver_ = nullptr;
  std::atomic<bool> busy_{false};
  std::atomic<uint32_t> calls_{0};

  // The thread's own notes
  uint32_t seen_calls_ = 0;
  bool armed_ = false;                // the kernel will wake the thread for it
  std::atomic<bool> closing_{false};  // the caller is done with it; the thread ends it
  Time close_by_{};
  int refusals_ = 0;  // in a row
  uint32_t proven_ =
      0;  // ways that led to the peer: a bit each. Others may lead to a stranger of its address
  Time refused_since_{};
  int checks_under_way_ = 0;
};

// Holds the lock for a scope, if it was free.
class IfFree {
 public:
  explicit IfFree(Endpoint& e) : e_(e.try_enter() ? &e : nullptr) {}
  ~IfFree() {
    if (e_) e_->leave();
  }
  IfFree(const IfFree&) = delete;
  IfFree& operator=(const IfFree&) = delete;
  explicit operator bool() const { return e_ != nullptr; }

 private:
  Endpoint* e_;
};

// Holds the lock for a scope.
class Entered {
 public:
  explicit Entered(Endpoint& e) : e_(e) { e.enter(); }
  ~Entered() { e_.leave(); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Endpoint& e_;
};

}  // namespace megascale
