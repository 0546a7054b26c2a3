#include "tests/unit/transport/rails/faulty_dialer.h"

#include <algorithm>

namespace megascale {

FaultyDialer::FaultyDialer(FaultyWorld& w, std::vector<Path> names) : world_(w), names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); i++) paths_.push_back(std::make_shared<FaultyPath>());
}

// What waits on a path that is down holds the wire, which holds the path.
FaultyDialer::~FaultyDialer() {
  for (auto& p : paths_) p->waiting.clear();
}

void FaultyDialer::path_down(std::size_t i) { paths_[i]->up = false; }

void FaultyDialer::path_up(std::size_t i) {
  auto& p = *paths_[i];
  p.up = true;
  for (auto& what : p.waiting) world_.time.after(world_.faults.delay, std::move(what));
  p.waiting.clear();
}

std::vector<std::shared_ptr<FaultyWire>> FaultyDialer::wires() {
  std::vector<std::shared_ptr<FaultyWire>> alive;
  std::erase_if(wires_, [](auto& w) { return w.expired(); });
  for (auto& w : wires_)
    if (auto s = w.lock(); s && (s->in_use(Side::sending) || s->in_use(Side::receiving))) alive.push_back(s);
  return alive;
}

void FaultyDialer::dial(int path, Epoch e) {
  dials.emplace_back(path, e);
  dial_times.push_back(world_.time.now());
  auto p = static_cast<std::size_t>(path);
  world_.time.after(world_.dice.between(1us, faults.slowest), [=, this] { answer(p, e); });
}

void FaultyDialer::give_up(Epoch e) { given_up_.push_back(e); }

bool FaultyDialer::given_up(Epoch e) const {
  return std::find(given_up_.begin(), given_up_.end(), e) != given_up_.end();
}

void FaultyDialer::answer(std::size_t p, Epoch e) {
  if (given_up(e) && !world_.dice.chance(faults.late_answer)) return;
  if (!paths_[p]->up) return fail(p, e, Cause::unreachable, faults.deadline);
  if (world_.dice.chance(faults.fail)) return fail(p, e, Cause::refused, 0us);
  auto w = std::make_shared<FaultyWire>(world_, paths_[p], names_[p].name + " #" + std::to_string(e));
  wires_.push_back(w);
  auto later = [&] { return world_.dice.between(0us, faults.slowest); };
  if (world_.dice.chance(faults.only_there)) {
    give_to_receiver(p, e, w, later());
    fail(p, e, Cause::unreachable, later());
  } else if (world_.dice.chance(faults.only_here)) {
    give_to_sender(p, e, w, later());
  } else {
    give_to_receiver(p, e, w, later());
    give_to_sender(p, e, w, later());
  }
}

// The end exists from now on, and what arrives waits in it; its owner gets it a little later.
void FaultyDialer::give_to_sender(std::size_t p, Epoch e, std::shared_ptr<FaultyWire> w, Duration later) {
  auto link = std::make_shared<std::unique_ptr<Link>>(w->make_end(Side::sending));
  world_.time.after(later, [=, this] {
    if (!given_up(e) || world_.dice.chance(faults.late_answer))
      sender_->dialled(static_cast<int>(p), e, std::move(*link), world_.time.now());
  });
}

void FaultyDialer::give_to_receiver(std::size_t p, Epoch e, std::shared_ptr<FaultyWire> w, Duration later) {
  auto link = std::make_shared<std::unique_ptr<Link>>(w->make_end(Side::receiving));
  world_.time.after(later,
                    [=, this] { receiver_->accepted(std::move(*link), e, names_[p], world_.time.now()); });
}

void FaultyDialer::fail(std::size_t p, Epoch e, Cause c, Duration later) {
  world_.time.after(later, [=, this] {
    sender_->dial_failed(static_cast<int>(p), e, c, "as the test wants it", world_.time.now());
  });
}

}  // namespace megascale
