#include "transport/session/endpoint.h"

#include <time.h>

#include "transport/session/process.h"

namespace megascale {
namespace {

std::string connection_name(const PeerIdentity& p) {
  char text[64];
  std::snprintf(text, sizeof text, "%llx.%u", static_cast<unsigned long long>(p.listener), p.instance);
  return text;
}

}  // namespace

Endpoint::Endpoint(Process& process, uint64_t id, void* owner, PeerIdentity peer,
                   const ConnectionOptions& options, std::vector<Way> ways, std::vector<Path> paths)
    : process_(process), id_(id), owner_(owner), peer_(std::move(peer)), ways_(std::move(ways)) {
  std::string whom = process.peer_name(peer_.incarnation, peer_.addresses.at(0));
  if (paths.empty()) {
    auto r = std::make_unique<Receiver>(options, connection_name(peer_), whom, *this);
    receiver_ = r.get();
    connection_ = std::move(r);
  } else {
    auto s = std::make_unique<Sender>(options, connection_name(peer_), whom, *this, std::move(paths));
    sender_ = s.get();
    connection_ = std::move(s);
  }
  connection_->holder = this;
  waiter_ = std::make_unique<Process::EndpointWaiter>(&process, this);
}

void Endpoint::enter() {
  // A short sleep, not a yield: where many threads only yield, the scheduler may never get to who holds the
  // lock.
  constexpr timespec kNap{0, 20'000};
  for (int spins = 0; !try_enter(); spins++)
    if (spins > 100) clock_nanosleep(CLOCK_MONOTONIC, 0, &kNap, nullptr);
}

bool Endpoint::words_left() const {
  if (connection_->state() != Connection::State::open) return false;
  return sender_ ? sender_->only_copies_left() && !sender_->all_acknowledged() : receiver_->parting();
}

void Endpoint::called() {
  calls_.fetch_add(1);
  if (process_.asleep_.load()) process_.wake();
}

void Endpoint::dial(int path, Epoch e) { process_.ask({Process::Ask::What::dial, id_, path, e}); }
void Endpoint::give_up(Epoch e) { process_.ask({Process::Ask::What::give_up, id_, 0, e}); }
void Endpoint::check_peer() { process_.ask({Process::Ask::What::check, id_, 0, receiver_->newest()}); }

}  // namespace megascale
