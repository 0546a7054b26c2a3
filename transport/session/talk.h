// A handshake on a socket: carries the bytes of the pure state machines, and keeps the deadline.
#pragma once
#include <algorithm>
#include <memory>

#include "transport/rails/connection.h"
#include "transport/session/handshake.h"
#include "transport/tcp/socket.h"

namespace megascale {

// What the thread's epoll wakes.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void ready(Time now) = 0;
};

class Talk {
 public:
  enum class Outcome : uint8_t { talking, deciding, agreed, refused, closed, failed };

  Talk(tcp::Socket s, std::unique_ptr<Handshake> h, Time deadline)
      : socket_(std::move(s)), handshake_(std::move(h)), deadline_(deadline) {}

  // Sends and reads what can be now.
  Outcome pump();
  bool wants_out() const { return !handshake_->outgoing().empty(); }
  Time deadline() const { return deadline_; }
  void not_before(Time t) { deadline_ = std::max(deadline_, t); }
  Handshake& handshake() { return *handshake_; }
  int fd() const { return socket_.fd(); }
  int error() const { return error_; }  // errno of Outcome::failed
  tcp::Socket take_socket() { return std::move(socket_); }

 private:
  bool flush();

  tcp::Socket socket_;
  std::unique_ptr<Handshake> handshake_;
  Time deadline_;
  int error_ = 0;
};

}  // namespace megascale
