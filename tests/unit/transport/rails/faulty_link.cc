#include "tests/unit/transport/rails/faulty_link.h"

#include <cstring>

namespace megascale {

Happened& Happened::operator+=(const Happened& h) {
  auto add = [&](uint64_t Happened::*m) { this->*m += h.*m; };
  for (auto m : {&Happened::chunks, &Happened::lost, &Happened::duplicates, &Happened::lies,
                 &Happened::repeats, &Happened::broken, &Happened::one_ended, &Happened::writes_after_break,
                 &Happened::writes_prevented, &Happened::dead_reports, &Happened::resets, &Happened::silences,
                 &Happened::fences, &Happened::destroyed_unfenced})
    add(m);
  return *this;
}

// ---- the wire ----

std::unique_ptr<Link> FaultyWire::make_end(Side s) {
  end(s).exists = true;
  return std::make_unique<FaultyLink>(shared_from_this(), s);
}

void FaultyWire::break_end(Side s, Cause c) {
  if (end(s).broken || end(s).in_trouble) return;
  end(s).in_trouble = true;
  end(s).trouble = c;
}

bool FaultyWire::in_use(Side s) const { return end(s).exists && !end(s).broken && !end(s).asked; }

Duration FaultyWire::travel() {
  auto& w = world_;
  Duration least = w.faults.reorder ? Duration(1us) : w.faults.delay;
  return w.dice.between(least, w.dice.chance(w.faults.slow) ? w.faults.slowest : w.faults.delay);
}

uint64_t FaultyWire::take_off(Side s, bool chunk) {
  end(s).flights.push_back({++flights_, world_.time.now(), chunk});
  return flights_;
}

void FaultyWire::acknowledge(Side s, uint64_t flight) {
  std::erase_if(end(s).flights, [&](const Flight& f) { return f.id == flight; });
}

void FaultyWire::send_chunk(const Chunk& c, const std::byte* data) {
  world_.happened.chunks++;
  uint64_t flight = take_off(Side::sending, true);
  auto self = shared_from_this();
  world_.time.after(world_.dice.between(0us, world_.faults.delay), [=] { self->leave(c, data, flight); });
}

// The bytes are read now, if there still is an end that may read them.
void FaultyWire::leave(const Chunk& c, const std::byte* data, uint64_t flight) {
  if (world_.over || !reachable(Side::sending)) return;
  std::vector<std::byte> bytes(data, data + c.bytes());
  if (world_.dice.chance(world_.faults.lose)) {
    world_.happened.lost++;
    return;  // what is lost is never acknowledged, so the link will break
  }
  auto self = shared_from_this();
  world_.time.after(travel(), [self, c, bytes = std::move(bytes), flight]() mutable {
    self->arrive(c, std::move(bytes), flight);
  });
}

void FaultyWire::arrive(const Chunk& c, std::vector<std::byte> bytes, uint64_t flight) {
  if (!path_->up) {
    auto self = shared_from_this();
    path_->waiting.push_back(
        [self, c, bytes = std::move(bytes), flight]() mutable { self->arrive(c, std::move(bytes), flight); });
    return;
  }
  if (!reachable(Side::receiving)) return;
  acknowledge(Side::sending, flight);
  end(Side::receiving).inbox.push_back({Item::What::chunk, c, std::move(bytes)});
}

// One-sided: the pieces are written while nobody polls.
void FaultyWire::write(const Chunk& c, std::byte* to, std::vector<std::byte> bytes) {
  end(Side::receiving).landed = true;
  auto all = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  std::size_t n = all->empty() ? 1 : 1 + world_.dice.below(std::min<std::size_t>(3, all->size()));
  auto left = std::make_shared<int>(static_cast<int>(n));
  for (std::size_t i = 0; i < n; i++) {
    std::size_t from = all->size() * i / n, size = all->size() * (i + 1) / n - from;
    auto self = shared_from_this();
    world_.time.after(world_.dice.between(0us, world_.faults.piece),
                      [=] { self->write_piece(c, to, all, from, size, left); });
  }
}

void FaultyWire::write_piece(const Chunk& c, std::byte* to, std::shared_ptr<std::vector<std::byte>> all,
                             std::size_t from, std::size_t size, std::shared_ptr<int> left) {
  End& e = end(Side::receiving);
  if (world_.over) return;
  if (!e.exists || e.fenced) {
    world_.happened.writes_prevented++;
    return;
  }
  bool dead = e.broken || e.asked;
  if (dead && world_.dice.chance(0.5)) {  // stuck in a switch or a NIC: as late as the fence allows
    auto self = shared_from_this();
    world_.time.after(world_.dice.between(0us, world_.faults.fence + 1ms),
                      [=] { self->write_piece(c, to, all, from, size, left); });
    return;
  }
  if (dead && world_.dice.chance(world_.faults.lie)) {
    world_.happened.lies++;
  } else if (size) {
    std::memcpy(to + from, all->data() + from, size);
    world_.happened.writes_after_break += dead;
  }
  if (--*left) return;
  e.inbox.push_back({Item::What::placed, c, {}});
  if (!world_.dice.chance(world_.faults.duplicate)) return;
  world_.happened.duplicates++;
  auto self = shared_from_this();
  world_.time.after(travel(), [self, c, all] { self->arrive(c, *all, 0); });
}

void FaultyWire::say(Side s, ConstBytes b) {
  bool lost = world_.dice.chance(world_.faults.lose);
  end(s).said.push_back({{b.begin(), b.end()}, lost, take_off(s, false)});
  end(s).last_record = std::max(end(s).last_record, world_.time.now() + travel());
  auto self = shared_from_this();
  world_.time.at(end(s).last_record, [=] { self->record_arrives(s); });
}

void FaultyWire::record_arrives(Side from) {
  if (!path_->up) {
    auto self = shared_from_this();
    path_->waiting.push_back([=] { self->record_arrives(from); });
    return;
  }
  End &a = end(from), &b = end(other(from));
  if (a.said.empty() || a.said.front().lost || !reachable(other(from))) return;
  acknowledge(from, a.said.front().flight);
  b.heard.push_back(a.said.front().bytes);
  b.inbox.push_back({Item::What::record, {}, std::move(a.said.front().bytes)});
  a.said.pop_front();
}

void FaultyWire::ask_fence(Side s) {
  if (end(s).asked) return;
  end(s).asked = true;
  auto self = shared_from_this();
  world_.time.after(world_.dice.between(0us, world_.faults.fence), [=] { self->fence_takes_effect(s); });
}

void FaultyWire::fence_takes_effect(Side s) {
  if (end(s).fenced) return;
  end(s).fenced = true;
  world_.happened.fences++;
  if (!path_->up || !world_.dice.chance(world_.faults.reset)) return;
  auto self = shared_from_this();
  world_.time.after(travel(), [=] { self->break_end(other(s), Cause::reset); });
}

// Unfenced links may be destroyed only if nothing was ever written for them, or with their connection.
void FaultyWire::destroyed(Side s) {
  End& e = end(s);
  if (s == Side::receiving && e.landed && !e.fenced && !world_.over) world_.happened.destroyed_unfenced++;
  if (!world_.over) fence_takes_effect(s);
  e.exists = false;
}

// ---- one end ----

bool FaultyLink::has_room(Time) {
  auto& e = end();
  if (e.broken || e.asked) return false;
  auto chunks = std::count_if(e.flights.begin(), e.flights.end(), [](auto& f) { return f.chunk; });
  return static_cast<std::size_t>(chunks) < world().faults.room;
}

Post FaultyLink::put(Sink& sink, const Chunk& c, const std::byte* data, Time now) {
  return attempt(sink, now, true, [&] { wire_->send_chunk(c, data); });
}

Post FaultyLink::say(Sink& sink, ConstBytes b, Time now) {
  return attempt(sink, now, false, [&] { wire_->say(side_, b); });
}

Post FaultyLink::attempt(Sink& sink, Time now, bool wants_room, const std::function<void()>& send) {
  auto& e = end();
  auto& w = world();
  if (w.dice.chance(w.faults.nested)) poll(sink, now);
  if (e.broken || e.asked) return Post::broken;
  if (w.dice.chance(w.faults.break_inside)) {
    if (w.dice.chance(0.5)) send();
    break_now(sink, Cause::reset);
    return Post::broken;
  }
  if ((wants_room && !has_room(now)) || w.dice.chance(w.faults.again)) return Post::again;
  send();
  return Post::ok;
}

void FaultyLink::hand_over(Sink& sink, FaultyWire::Item i) {
  auto& e = end();
  world().happened.dead_reports += e.broken || e.asked;
  switch (i.what) {
    case FaultyWire::Item::What::record:
      sink.heard(*this, i.bytes);
      return;
    case FaultyWire::Item::What::placed:
      sink.placed(*this, i.chunk);
      return;
    case FaultyWire::Item::What::chunk:
      if (std::byte* to = sink.land(*this, i.chunk)) wire_->write(i.chunk, to, std::move(i.bytes));
  }
}

void FaultyLink::poll(Sink& sink, Time) {
  auto& e = end();
  auto& w = world();
  if (e.told) return;
  if ((e.broken || e.asked) && !e.heard.empty() && w.dice.chance(w.faults.repeat)) {
    w.happened.repeats++;
    e.inbox.push_back({FaultyWire::Item::What::record, {}, e.heard[w.dice.below(e.heard.size())]});
  }
  for (std::size_t n = e.inbox.size(); n && !e.inbox.empty() && !e.fenced; n--) {
    FaultyWire::Item i = std::move(e.inbox.front());
    e.inbox.pop_front();
    hand_over(sink, std::move(i));
  }
  if (e.in_trouble) break_now(sink, e.trouble);
  if (!e.fenced || e.told) return;
  e.told = true;
  sink.fenced(*this);
}

void FaultyLink::check(Sink& sink, Time now) {
  auto& e = end();
  if (e.broken || e.asked || e.flights.empty() || now - e.flights.front().sent <= world().faults.detection)
    return;
  world().happened.silences++;
  break_now(sink, Cause::silence);
}

void FaultyLink::break_now(Sink& sink, Cause c) {
  auto& e = end();
  if (e.broken) return;
  e.in_trouble = false;
  e.broken = true;
  world().happened.broken++;
  world().happened.resets += c == Cause::reset;
  world().happened.one_ended += wire_->in_use(FaultyWire::other(side_));
  sink.broke(*this, c);
}

}  // namespace megascale
