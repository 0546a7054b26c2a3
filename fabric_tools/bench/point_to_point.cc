#include "fabric_tools/bench/point_to_point.h"

#include <sched.h>

#include <thread>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "fabric_tools/bench/clock.h"
#include "fabric_tools/memory.h"
#include "fabric_tools/progress.h"
#include "plugin/host/log.h"

namespace megascale {
namespace {

using host::Net;

constexpr uint64_t kWindow = abi::kSteps;
constexpr uint64_t kFewest = 64, kMost = 200'000;  // messages of one size
constexpr auto kSilence = std::chrono::seconds(300);

[[noreturn]] void fail(const Net& net, const char* call, abi::Result result) {
  std::string text = net.name() + "'s " + call + " failed with " + host::describe(result);
  if (const std::string warning = host::take_last_warning(); !warning.empty()) text += ": " + warning;
  throw std::runtime_error(text);
}

void expect(const Net& net, const char* call, abi::Result result) {
  if (result != abi::kSuccess) fail(net, call, result);
}

// Spins as NCCL's progress thread does; gives up after minutes of silence.
class Spin {
 public:
  void rest(bool moved) {
    if (moved) {
      idle_ = 0;
      return;
    }
    if (++idle_ % 64 == 0) sched_yield();
    if (idle_ == 1 << 16) quiet_since_ = Clock::now();
    if (idle_ > 1 << 16 && idle_ % (1 << 16) == 0 && Clock::now() - quiet_since_ > kSilence) {
      throw std::runtime_error("nothing moved for 300 s: the other rank has stopped, or its network has");
    }
  }

 private:
  int64_t idle_ = 0;
  Clock::time_point quiet_since_;
};

// One end of a one-way connection with its registered window of buffers.
class End {
 public:
  End(Net& net, void* connection, bool sends, size_t bytes)
      : net_(net), connection_(connection), sends_(sends), memory_(kWindow * stride(bytes)) {
    expect(net_, "regMr", net_.reg(connection_, memory_.data(), memory_.size(), abi::kPtrHost, &region_));
  }
  ~End() { net_.dereg(connection_, region_); }
  End(const End&) = delete;

  // Carries on with a stream of so many messages; true when something moved. Messages of eight bytes and more
  // carry their number, which the receiver checks.
  bool progress(uint64_t messages, size_t bytes) {
    bool moved = false;
    while (posted_ < messages && posted_ - done_ < kWindow) {
      if (!post(bytes)) break;
      moved = true;
    }
    while (done_ < posted_) {
      int done = 0, size = -1;
      expect(net_, "test", net_.test(requests_[done_ % kWindow], &done, &size));
      if (done == 0) break;
      if (!sends_) check(size, bytes);
      ++done_;
      moved = true;
    }
    return moved;
  }
  uint64_t done() const { return done_; }
  uint64_t wrong() const { return wrong_; }

 private:
  static size_t stride(size_t bytes) { return (std::max<size_t>(bytes, 8) + 4095) / 4096 * 4096; }
  uint8_t* slot(uint64_t message, size_t bytes) {
    return memory_.data() + (message % kWindow) * stride(bytes);
  }

  bool post(size_t bytes) {
    void* data = slot(posted_, bytes);
    void** request = &requests_[posted_ % kWindow];
    if (sends_) {
      if (bytes >= 8) std::memcpy(data, &posted_, 8);
      expect(net_, "isend", net_.isend(connection_, data, bytes, 0, region_, request));
    } else {
      *request = nullptr;
      int tag = 0;
      expect(net_, "irecv", net_.irecv(connection_, 1, &data, &bytes, &tag, &region_, request));
    }
    if (*request == nullptr) return false;
    ++posted_;
    return true;
  }

  void check(int size, size_t bytes) {
    uint64_t number = done_;
    if (bytes >= 8) std::memcpy(&number, slot(done_, bytes), 8);
    wrong_ += size != static_cast<int>(bytes) || number != done_;
  }

  Net& net_;
  void* connection_;
  bool sends_;
  std::vector<uint8_t> memory_;
  void* region_ = nullptr;
  void* requests_[kWindow] = {};
  uint64_t posted_ = 0, done_ = 0, wrong_ = 0;
};

class PointToPoint {
 public:
  PointToPoint(host::Rendezvous& rendezvous, host::NetContext& context, int rank, int device,
               const Circumstances& what)
      : rendezvous_(rendezvous),
        context_(context),
        net_(context.net()),
        rank_(rank),
        device_(device),
        what_(what) {}
  ~PointToPoint() {
    for (void* c : senders_) net_.close_send(c);
    for (void* c : receivers_) net_.close_receive(c);
  }

  std::vector<PointToPointRow> run() {
    connect();
    std::vector<PointToPointRow> rows;
    for (uint64_t bytes : sizes_of(what_.options)) {
      PointToPointRow row;
      row.bytes = bytes;
      throughput(row);
      round_trips(row);
      progress_.clear();
      if (rank_ == 0) print_row(what_, row);
      rows.push_back(row);
    }
    return rows;
  }

 private:
  // Rank 0 sends on all connections; rank 1 answers round trips on one more.
  void connect() {
    const int listens = rank_ == 1 ? what_.options.connections : 1;
    std::string blob;
    std::vector<void*> listeners;
    for (int i = 0; i < listens; ++i) {
      char handle[abi::kHandleSize] = {};
      void* listener = nullptr;
      expect(net_, "listen", net_.listen(context_.context(), device_, handle, &listener));
      listeners.push_back(listener);
      blob.append(handle, sizeof handle);
    }
    const std::string theirs = rendezvous_.all_gather(blob)[static_cast<size_t>(1 - rank_)];
    if (theirs.size() % abi::kHandleSize != 0)
      throw std::runtime_error("the other rank runs another release");
    senders_.resize(theirs.size() / abi::kHandleSize);
    receivers_.resize(listeners.size());
    std::vector<std::string> handles;
    for (size_t i = 0; i < senders_.size(); ++i) {
      handles.push_back(theirs.substr(i * abi::kHandleSize, abi::kHandleSize));
    }
    const auto deadline = Clock::now() + std::chrono::seconds(what_.options.timeout);
    auto missing = [](void* c) { return c == nullptr; };
    while (std::any_of(senders_.begin(), senders_.end(), missing) ||
           std::any_of(receivers_.begin(), receivers_.end(), missing)) {
      for (size_t i = 0; i < senders_.size(); ++i) {
        if (senders_[i]) continue;
        expect(net_, "connect", net_.connect(context_.context(), device_, handles[i].data(), &senders_[i]));
      }
      for (size_t i = 0; i < receivers_.size(); ++i) {
        if (!receivers_[i]) expect(net_, "accept", net_.accept(listeners[i], &receivers_[i]));
      }
      if (Clock::now() > deadline)
        throw std::runtime_error("the two ranks could not connect over " + net_.name());
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    for (void* listener : listeners) net_.close_listen(listener);
  }

  // Both ranks' figures, by rank.
  std::pair<double, double> both(double mine) {
    const auto blobs = rendezvous_.all_gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine));
    double values[2] = {};
    for (size_t rank = 0; rank < 2; ++rank) {
      if (blobs[rank].size() != sizeof mine) throw std::runtime_error("the other rank runs another release");
      std::memcpy(&values[rank], blobs[rank].data(), sizeof mine);
    }
    return {values[0], values[1]};
  }

  void throughput(PointToPointRow& row) {
    const auto connections = static_cast<uint64_t>(what_.options.connections);
    const uint64_t wanted = what_.options.volume / std::max<uint64_t>(row.bytes, 1) / connections;
    const uint64_t each = std::clamp(wanted, kFewest, kMost);
    std::vector<std::unique_ptr<End>> ends;
    for (void* connection : rank_ == 0 ? senders_ : receivers_) {
      ends.push_back(std::make_unique<End>(net_, connection, rank_ == 0, row.bytes));
    }
    stream(ends, std::min<uint64_t>(each, 4 * kWindow), row.bytes);  // warm-up
    both(0);
    const double cpu = cpu_seconds();
    const auto start = Clock::now();
    stream(ends, std::min<uint64_t>(each, 4 * kWindow) + each, row.bytes);
    const auto [sent, received] = both(since(start));
    const auto [cpu0, cpu1] = both(cpu_seconds() - cpu);
    const double seconds = std::max(sent, received);
    row.messages = each * connections;
    const double volume = static_cast<double>(row.messages * row.bytes);
    row.bytes_per_second = volume / seconds;
    row.cpu_seconds_per_gigabyte = volume > 0 ? (cpu0 + cpu1) / (volume / 1e9) : 0;
    uint64_t wrong = 0;
    for (const auto& end : ends) wrong += end->wrong();
    row.wrong = static_cast<uint64_t>(both(static_cast<double>(wrong)).second);
  }

  void stream(std::vector<std::unique_ptr<End>>& ends, uint64_t until, size_t bytes) {
    Spin spin;
    for (;;) {
      bool moved = false, over = true;
      for (auto& end : ends) {
        moved |= end->progress(until, bytes);
        over &= end->done() == until;
      }
      if (over) return;
      spin.rest(moved);
      progress_.show([&] { return std::to_string(bytes) + " bytes: throughput"; });
    }
  }

  void round_trips(PointToPointRow& row) {
    End out(net_, senders_[0], true, row.bytes), in(net_, receivers_[0], false, row.bytes);
    const uint64_t wanted =
        std::max<uint64_t>(what_.options.volume / 16 / std::max<uint64_t>(row.bytes, 1), 100);
    const uint64_t trips = std::min<uint64_t>(wanted, 20'000), warm_up = trips / 10;
    std::vector<double> times;
    times.reserve(trips);
    both(0);
    const uint64_t all = trips + warm_up;  // receives are posted ahead, as NCCL does it
    for (uint64_t trip = 1; trip <= all; ++trip) {
      const auto start = Clock::now();
      Spin spin;
      if (rank_ == 0) {
        while (out.done() < trip || in.done() < trip) {
          spin.rest(static_cast<int>(in.progress(all, row.bytes)) |
                    static_cast<int>(out.progress(trip, row.bytes)));
        }
      } else {
        while (in.done() < trip) spin.rest(in.progress(all, row.bytes));
        while (out.done() < trip) spin.rest(out.progress(trip, row.bytes));
      }
      if (trip > warm_up) times.push_back(since(start) / 2);
      progress_.show([&] { return std::to_string(row.bytes) + " bytes: round trips"; });
    }
    std::sort(times.begin(), times.end());
    auto quantile = [&](double q) {
      return times[std::min(times.size() - 1, static_cast<size_t>(q * static_cast<double>(times.size())))];
    };
    row.p50 = both(quantile(0.5)).first;
    row.p99 = both(quantile(0.99)).first;
    row.p999 = both(quantile(0.999)).first;
    row.shortest = both(times.front()).first;
    const auto [wrong0, wrong1] = both(static_cast<double>(in.wrong()));
    row.wrong += static_cast<uint64_t>(wrong0 + wrong1);
  }

  host::Rendezvous& rendezvous_;
  host::NetContext& context_;
  Net& net_;
  const int rank_, device_;
  const Circumstances& what_;
  std::vector<void*> senders_, receivers_;
  Progress progress_{rank_ == 0};
};

}  // namespace

std::vector<PointToPointRow> run_point_to_point(host::Rendezvous& rendezvous, host::NetContext& context,
                                                int rank, int device, const Circumstances& what) {
  return PointToPoint(rendezvous, context, rank, device, what).run();
}

}  // namespace megascale
