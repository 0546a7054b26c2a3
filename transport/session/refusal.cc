// What the reasons of a refusal are called, and what they tell a person.
#include <cstdio>

#include "transport/session/handshake.h"

namespace megascale {
namespace {

constexpr const char* kSameSecret =
    "; set the same MEGASCALE_SECRET or MEGASCALE_SECRET_FILE for every process of the job";

std::string identities(const char* format, unsigned theirs, unsigned ours) {
  char text[256];
  snprintf(text, sizeof text, format, theirs, ours);
  return text;
}

std::string reason_text(const Refusal& r) {
  switch (r.reason) {
    case RefusalReason::none:
      return "no reason was given";
    case RefusalReason::stranger:
      return "what came is no Megascale handshake; something else uses this address and port";
    case RefusalReason::malformed:
      return "a message was malformed, out of order, or not proved; the stream is damaged or the peer is not "
             "what it says";
    case RefusalReason::plugin_id:
      return identities(
          "the other end is another plugin (id %#x, this one is %#x); load the same library everywhere",
          r.theirs.plugin_id, r.ours.plugin_id);
    case RefusalReason::version:
      return identities(
          "the other end speaks protocol version %u, this one %u; install the same version everywhere",
          r.theirs.version, r.ours.version);
    case RefusalReason::dialer_without_secret:
      return std::string("the process that listens has a job secret, the one that dials has none") +
             kSameSecret;
    case RefusalReason::listener_without_secret:
      return std::string("the process that dials has a job secret, the one that listens has none") +
             kSameSecret;
    case RefusalReason::wrong_secret:
      return std::string(
                 "the two ends do not have the same job secret, or an old conversation was played again") +
             kSameSecret;
    case RefusalReason::too_many:
      return "the process that listens has too many handshakes open; it may be tried again";
    case RefusalReason::unknown_connection:
      return "the process that listens has no such connection; the handle is of another job, or what it "
             "named was closed";
    case RefusalReason::stale_incarnation:
      return "the process that the handle names is gone and another one runs at its address";
    case RefusalReason::stale_epoch:
      return "a newer link of this connection has taken this one's place";
    case RefusalReason::closed:
      return "the connection was closed at the other end";
  }
  return "reason " + std::to_string(static_cast<unsigned>(r.reason)) + ", which this version does not know";
}

}  // namespace

std::string_view name_of(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::none:
      return "none";
    case RefusalReason::stranger:
      return "stranger";
    case RefusalReason::malformed:
      return "malformed";
    case RefusalReason::plugin_id:
      return "plugin_id";
    case RefusalReason::version:
      return "version";
    case RefusalReason::dialer_without_secret:
      return "dialer_without_secret";
    case RefusalReason::listener_without_secret:
      return "listener_without_secret";
    case RefusalReason::wrong_secret:
      return "wrong_secret";
    case RefusalReason::too_many:
      return "too_many";
    case RefusalReason::unknown_connection:
      return "unknown_connection";
    case RefusalReason::stale_incarnation:
      return "stale_incarnation";
    case RefusalReason::stale_epoch:
      return "stale_epoch";
    case RefusalReason::closed:
      return "closed";
  }
  return "unknown";
}

std::string Refusal::sentence() const {
  return (by_peer ? "the peer refused the handshake: " : "the handshake was refused: ") + reason_text(*this);
}

}  // namespace megascale
