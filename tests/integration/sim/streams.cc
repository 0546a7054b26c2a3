#include "tests/integration/sim/streams.h"

#include <algorithm>

namespace megascale::sim {

void Streams::begin(Wire& wire) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    const Stream& s = streams_[i];
    const ConnectionId connection = wire.connect(s.source, s.destination);
    for (uint32_t n = 0; n < kAtOnce; ++n) wire.post(connection, kMessage, i, s.from);
  }
}

void Streams::delivered(Wire& wire, const Delivery& d) {
  std::vector<Bytes>& windows = got_[d.tag];
  const auto window = static_cast<size_t>(d.at.time_since_epoch() / window_);
  if (windows.size() <= window) windows.resize(window + 1);
  windows[window] += kMessage;
  wire.post(d.connection, kMessage, d.tag, d.at);
}

Bytes Streams::bytes(size_t stream, Time from, Time to) const {
  const auto first = static_cast<size_t>(from.time_since_epoch() / window_);
  const auto end = static_cast<size_t>(to.time_since_epoch() / window_);
  Bytes sum = 0;
  for (size_t w = first; w < std::min(end, got_[stream].size()); ++w) sum += got_[stream][w];
  return sum;
}

Rate Streams::goodput(size_t stream, Time from, Time to) const {
  return {static_cast<double>(bytes(stream, from, to)) * 8 / seconds(to - from)};
}

Rate Streams::goodput(Time from, Time to) const {
  Rate sum;
  for (size_t i = 0; i < streams_.size(); ++i) sum.bits_per_second += goodput(i, from, to).bits_per_second;
  return sum;
}

double Streams::jain(Time from, Time to) const {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < streams_.size(); ++i) {
    const auto got = static_cast<double>(bytes(i, from, to));
    sum += got;
    squares += got * got;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(streams_.size()) * squares) : 1;
}

double Streams::mean_jain_of_windows(Time from, Time to) const {
  double sum = 0;
  for (Time t = from; t + window_ <= to; t += window_) sum += jain(t, t + window_);
  return sum / static_cast<double>((to - from) / window_);
}

Time Streams::first_reaches(Rate wanted, Time after) const {
  size_t windows = 0;
  for (const auto& w : got_) windows = std::max(windows, w.size());
  const auto first = static_cast<size_t>((after.time_since_epoch() + window_ - Duration(1)) / window_);
  for (size_t w = first; w < windows; ++w) {
    const Time begin{window_ * static_cast<int64_t>(w)};
    if (goodput(begin, begin + window_) >= wanted) return begin + window_;
  }
  return kNever;
}

std::vector<Stream> streams_to_first(uint32_t count) {
  std::vector<Stream> streams;
  for (uint32_t i = 1; i <= count; ++i) streams.push_back({i, 0, {}});
  return streams;
}

}  // namespace megascale::sim
