// Sockets for sessions and links: made from a rail's address, non-blocking, tuned once.
#pragma once
#include <string>

#include "transport/base/result.h"
#include "transport/base/settings.h"
#include "transport/tcp/rail.h"

namespace megascale::tcp {

// Every descriptor of ours is noted here, so that a forked child can close them all: a child that keeps them
// open would keep its dead parent's connections alive.
void note_descriptor(int fd);
void close_descriptor(int fd);
void close_all_in_child();

// A descriptor that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) { note_descriptor(fd); }
  Socket(Socket&& o) noexcept : fd_(o.release()) {}
  Socket& operator=(Socket&& o) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

// How sockets are set, decided once per process: the TCP algorithm that this kernel lets us have, buffers,
// rate.
struct Tuning {
  std::string algorithm;  // empty: the kernel's default
  Bytes send_buffer = 0, receive_buffer = 0;
  Rate rate = Rate::unlimited();
};
Tuning choose_tuning(const Settings&);

// Listens on one port on all addresses (the peer comes over whichever rail is left); `port` is chosen by the
// kernel.
Result<Socket> listen_everywhere(uint16_t& port);
// Begins a connection from the rail's address. It is made when the socket becomes writable.
Result<Socket> begin_connect(const Rail& from, const Address& to, const Tuning&);
void tune(int fd, const Tuning&);
std::string algorithm_of(int fd);
Address local_address(int fd);

}  // namespace megascale::tcp
