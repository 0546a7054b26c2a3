#include "fabric_tools/sim/sampler.h"

#include <algorithm>

namespace megascale::sim {
namespace {

constexpr size_t kMostValues = 8'000'000;  // in all series together
constexpr size_t kAlwaysKept = 16;

bool busier(const FabricPort& a, const FabricPort& b) { return a.busy > b.busy; }

}  // namespace

Sampler::Sampler(EventQueue& events, const Fabric& fabric, Duration every)
    : events_(events), fabric_(fabric), every_(ticks(every)) {
  if (every_ <= 0) return;
  for (uint32_t p = 0; p < fabric.ports().size(); ++p) {
    if (fabric.ports()[p].from_nic) continue;
    tracks_.emplace_back();
    tracks_.back().series.port = p;
  }
  events_.push(every_, EventKind::kSample, 0);
}

void Sampler::on_event() {
  for (Track& track : tracks_) {
    const FabricPort& port = fabric_.ports()[track.series.port];
    track.series.queue.push_back(static_cast<float>(port.queued));
    const auto bits = static_cast<double>(port.sent_bytes - track.sent) * 8;
    track.series.rate.push_back(static_cast<float>(bits / (static_cast<double>(every_) * 1e-12)));
    track.sent = port.sent_bytes;
  }
  ++samples_;
  if (2 * samples_ * tracks_.size() > kMostValues) tracks_.size() > kAlwaysKept ? forget_idle() : halve();
  events_.push(events_.now() + every_, EventKind::kSample, 0);
}

// Room for longer series of fewer ports: which are the busiest is known only in the end.
void Sampler::forget_idle() {
  std::stable_sort(tracks_.begin(), tracks_.end(), [&](const Track& a, const Track& b) {
    return busier(fabric_.ports()[a.series.port], fabric_.ports()[b.series.port]);
  });
  tracks_.resize(std::max(kAlwaysKept, tracks_.size() / 2));
}

// Of two samples, the longer queue and the mean rate.
void Sampler::halve() {
  samples_ /= 2;
  every_ *= 2;
  for (Track& track : tracks_) {
    std::vector<float>&queue = track.series.queue, &rate = track.series.rate;
    for (size_t i = 0; i < samples_; ++i) {
      queue[i] = std::max(queue[2 * i], queue[2 * i + 1]);
      rate[i] = (rate[2 * i] + rate[2 * i + 1]) / 2;
    }
    queue.resize(samples_);
    rate.resize(samples_);
  }
}

std::vector<Series> Sampler::busiest(size_t most) const {
  std::vector<Series> series;
  for (const Track& track : tracks_) series.push_back(track.series);
  std::stable_sort(series.begin(), series.end(), [&](const Series& a, const Series& b) {
    const FabricPort &x = fabric_.ports()[a.port], &y = fabric_.ports()[b.port];
    return x.busy != y.busy ? busier(x, y) : a.port < b.port;
  });
  series.resize(std::min(most, series.size()));
  return series;
}

}  // namespace megascale::sim
