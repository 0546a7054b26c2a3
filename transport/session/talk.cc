#include "transport/session/talk.h"

#include <errno.h>
#include <sys/socket.h>

namespace megascale {

// False: the socket broke.
bool Talk::flush() {
  while (wants_out()) {
    Octets out = handshake_->outgoing();
    ssize_t n = send(socket_.fd(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      error_ = errno;
      return errno == EAGAIN || errno == EINTR;
    }
    handshake_->consume_out(static_cast<size_t>(n));
  }
  return true;
}

Talk::Outcome Talk::pump() {
  for (;;) {
    if (!flush()) return Outcome::failed;
    switch (handshake_->state()) {
      case HandshakeState::talking:
        break;
      case HandshakeState::deciding:
        return Outcome::deciding;
      case HandshakeState::agreed:
        return wants_out() ? Outcome::talking : Outcome::agreed;
      case HandshakeState::refused:
        return Outcome::refused;
    }
    // Looked at first, taken then: what comes behind the handshake is the link's.
    uint8_t bytes[kMaxHandshakeMessage];
    ssize_t n = recv(socket_.fd(), bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0) return Outcome::closed;
    if (n < 0) {
      if (errno == EAGAIN || errno == EINTR) return Outcome::talking;
      error_ = errno;
      return Outcome::failed;
    }
    size_t taken = handshake_->feed({bytes, static_cast<size_t>(n)});
    if (taken && recv(socket_.fd(), bytes, taken, MSG_DONTWAIT) < 0) {
      error_ = errno;
      return Outcome::failed;
    }
    if (!taken && handshake_->state() == HandshakeState::talking && !wants_out()) return Outcome::talking;
  }
}

}  // namespace megascale
