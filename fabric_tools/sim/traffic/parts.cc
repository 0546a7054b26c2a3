#include "fabric_tools/sim/traffic/parts.h"

#include <algorithm>

namespace megascale::sim {
namespace {

// The upper bits of a tag say which part it belongs to; parts keep theirs below.
constexpr unsigned kShift = 58;
constexpr uint64_t kBegin = (uint64_t{1} << kShift) - 1;  // wakes a part for the first time

class PartWire : public Wire {
 public:
  PartWire(Wire& wire, size_t part, Duration start) : wire_(wire), part_(part), start_(start) {}

  ConnectionId connect(uint32_t source, uint32_t destination) override {
    return wire_.connect(source, destination);
  }
  void post(ConnectionId id, Bytes bytes, uint64_t tag, Time at) override {
    wire_.post(id, bytes, mark(tag), at + start_);
  }
  void close(ConnectionId id) override { wire_.close(id); }
  void wake(Time at, uint64_t tag) override { wire_.wake(at + start_, mark(tag)); }

 private:
  uint64_t mark(uint64_t tag) const { return tag | uint64_t{part_} << kShift; }

  Wire& wire_;
  size_t part_;
  Duration start_;
};

constexpr uint64_t unmark(uint64_t tag) { return tag & ((uint64_t{1} << kShift) - 1); }

}  // namespace

void Parts::begin(Wire& wire) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    PartWire part(wire, i, parts_[i].start);
    if (parts_[i].start > Duration(0)) {
      part.wake(Time{}, kBegin);
    } else {
      parts_[i].begun = true;
      parts_[i].traffic->begin(part);
    }
  }
}

void Parts::delivered(Wire& wire, const Delivery& delivery) {
  const size_t index = delivery.tag >> kShift;
  Part& part = parts_[index];
  PartWire part_wire(wire, index, part.start);
  part.traffic->delivered(part_wire, {delivery.connection, unmark(delivery.tag), delivery.at - part.start});
  after(delivery.at);
}

void Parts::woken(Wire& wire, uint64_t tag, Time now) {
  const size_t index = tag >> kShift;
  Part& part = parts_[index];
  PartWire part_wire(wire, index, part.start);
  if (unmark(tag) == kBegin) {
    if (part.traffic->endless() && foreground_over_) return;
    part.begun = true;
    part.traffic->begin(part_wire);
  } else {
    part.traffic->woken(part_wire, unmark(tag), now - part.start);
  }
  after(now);
}

void Parts::after(Time now) {
  if (foreground_over_) return;
  for (const Part& part : parts_)
    if (!part.traffic->endless() && !part.traffic->finished()) return;
  foreground_over_ = true;
  foreground_end_ = now;
  for (Part& part : parts_)
    if (part.traffic->endless()) part.traffic->stop();
}

bool Parts::finished() const {
  return foreground_over_ && std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
           return !part.begun || part.traffic->finished();
         });
}

double Parts::progress() const {
  double least = 1;
  for (const Part& part : parts_)
    if (!part.traffic->endless()) least = std::min(least, part.traffic->progress());
  return least;
}

uint64_t Parts::connections() const {
  uint64_t sum = 0;
  for (const Part& part : parts_) sum += part.traffic->connections();
  return sum;
}

double Parts::messages() const {
  double sum = 0;
  for (const Part& part : parts_) sum += part.traffic->messages();
  return sum;
}

std::optional<Time> Parts::foreground_end() const {
  if (!foreground_over_) return {};
  return foreground_end_;
}

std::optional<Rate> Parts::victim_goodput() const {
  for (const Part& part : parts_)
    if (auto rate = part.traffic->victim_goodput()) return rate;
  return {};
}

}  // namespace megascale::sim
