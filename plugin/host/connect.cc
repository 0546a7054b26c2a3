#include "plugin/host/connect.h"

#include <array>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>

#include "plugin/host/log.h"

namespace megascale::host {
namespace {

using Clock = std::chrono::steady_clock;
using Handle = std::array<char, abi::kHandleSize>;

// One connection in the making, one way. NCCL passes the same writable copy of the handle at every call.
struct Attempt {
  int peer;
  int device;
  void* listener;  // null: this side connects
  Handle handle;
  void** result;
};

class Connector {
 public:
  Connector(NetContext& context, Rendezvous& rendezvous, const ConnectOptions& options)
      : context_(context), net_(context.net()), rendezvous_(rendezvous), options_(options) {}

  Wires run() {
    try {
      make_room();
      listen_for_all();
      exchange_handles();
      wait_for_all();
    } catch (...) {
      close_listeners();
      close_all(net_, wires_);
      throw;
    }
    close_listeners();
    return std::move(wires_);
  }

 private:
  int next() const { return (options_.rank + 1) % options_.ranks; }
  int previous() const { return (options_.rank + options_.ranks - 1) % options_.ranks; }
  int device_of_ring(int ring) const { return (options_.device + ring) % context_.devices(); }
  size_t ranks() const { return static_cast<size_t>(options_.ranks); }
  size_t rings() const { return static_cast<size_t>(options_.rings); }

  void make_room() {
    wires_.rings.resize(rings());
    wires_.to_rank.resize(ranks());
    wires_.from_rank.resize(ranks());
  }

  void listen(int peer, int device, void** result) {
    Attempt attempt{peer, device, nullptr, {}, result};
    const abi::Result code =
        net_.listen(context_.context(), device, attempt.handle.data(), &attempt.listener);
    if (code != abi::kSuccess) fail("listen on device " + std::to_string(device), peer, code);
    if (attempt.listener == nullptr) {
      throw std::runtime_error(net_.name() + "'s listen gave no object: the plugin breaks its contract");
    }
    accepts_.push_back(attempt);
  }

  void listen_for_all() {
    for (size_t r = 0; r < rings(); ++r) {
      listen(previous(), device_of_ring(static_cast<int>(r)), &wires_.rings[r].from_previous);
    }
    for (int peer = 0; peer < options_.ranks; ++peer) {
      if (peer != options_.rank) listen(peer, options_.device, &wires_.from_rank[static_cast<size_t>(peer)]);
    }
  }

  // A rank's blob: the plugin's name, ended by a zero, then a handle for each ring and for each rank (its
  // own: zeros).
  void exchange_handles() {
    std::string blob = net_.name() + '\0';
    size_t at = 0;
    auto put = [&](const Handle& handle) { blob.append(handle.data(), handle.size()); };
    for (size_t r = 0; r < rings(); ++r) put(accepts_[at++].handle);
    for (size_t peer = 0; peer < ranks(); ++peer) {
      put(static_cast<int>(peer) == options_.rank ? Handle{} : accepts_[at++].handle);
    }
    blobs_ = rendezvous_.all_gather(blob);
    for (size_t r = 0; r < rings(); ++r) {
      dial(next(), device_of_ring(static_cast<int>(r)), r, &wires_.rings[r].to_next);
    }
    for (int peer = 0; peer < options_.ranks; ++peer) {
      if (peer == options_.rank) continue;
      dial(peer, options_.device, rings() + static_cast<size_t>(options_.rank),
           &wires_.to_rank[static_cast<size_t>(peer)]);
    }
  }

  void dial(int peer, int device, size_t index, void** result) {
    const std::string& blob = blobs_[static_cast<size_t>(peer)];
    const size_t name_end = blob.find('\0');
    const std::string name = blob.substr(0, name_end);
    if (name_end == std::string::npos ||
        blob.size() != name_end + 1 + (rings() + ranks()) * abi::kHandleSize) {
      throw std::runtime_error("rank " + std::to_string(peer) +
                               " announced something else than its connections");
    }
    if (name != net_.name()) {
      throw std::runtime_error("rank " + std::to_string(peer) + " uses the network plugin " + name +
                               ", rank " + std::to_string(options_.rank) + " uses " + net_.name() +
                               "; choose the same for every rank");
    }
    Attempt attempt{peer, device, nullptr, {}, result};
    std::memcpy(attempt.handle.data(), blob.data() + name_end + 1 + index * abi::kHandleSize,
                abi::kHandleSize);
    connects_.push_back(attempt);
  }

  void wait_for_all() {
    const auto deadline = Clock::now() + options_.timeout;
    for (int round = 0;; ++round) {
      bool moved = false, all = true;
      for (Attempt& attempt : connects_) moved |= step(attempt, all);
      for (Attempt& attempt : accepts_) moved |= step(attempt, all);
      if (all) return;
      if (rendezvous_.failed()) throw std::runtime_error(rendezvous_.failure()->text);
      if (moved) continue;
      if (Clock::now() > deadline) give_up();
      if (round < 1000) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
  }

  bool step(Attempt& attempt, bool& all) {
    if (*attempt.result != nullptr) return false;
    void* connection = nullptr;
    const abi::Result code = attempt.listener != nullptr ? net_.accept(attempt.listener, &connection)
                                                         : net_.connect(context_.context(), attempt.device,
                                                                        attempt.handle.data(), &connection);
    if (code != abi::kSuccess) {
      fail(attempt.listener != nullptr ? "accept" : "connect on device " + std::to_string(attempt.device),
           attempt.peer, code);
    }
    *attempt.result = connection;
    if (connection == nullptr) all = false;
    return connection != nullptr;
  }

  [[noreturn]] void fail(const std::string& call, int peer, abi::Result code) {
    std::string text = "rank " + std::to_string(options_.rank) + " could not reach rank " +
                       std::to_string(peer) + ": " + net_.name() + "'s " + call + " failed with " +
                       describe(code);
    if (const std::string warning = take_last_warning(); !warning.empty()) text += ": " + warning;
    throw std::runtime_error(text);
  }

  [[noreturn]] void give_up() {
    std::set<int> missing;
    for (const auto* attempts : {&connects_, &accepts_}) {
      for (const Attempt& attempt : *attempts) {
        if (*attempt.result == nullptr) missing.insert(attempt.peer);
      }
    }
    std::string text;
    for (int peer : missing) text += (text.empty() ? "rank " : ", rank ") + std::to_string(peer);
    throw std::runtime_error("rank " + std::to_string(options_.rank) + " has no connection with " + text +
                             " after " + std::to_string(options_.timeout.count() / 1000) + " s over " +
                             net_.name() +
                             "; can their hosts reach each other on the network that the plugin chose?");
  }

  void close_listeners() {
    for (Attempt& attempt : accepts_) net_.close_listen(attempt.listener);
    accepts_.clear();
  }

  NetContext& context_;
  Net& net_;
  Rendezvous& rendezvous_;
  const ConnectOptions options_;
  std::vector<Attempt> accepts_, connects_;
  std::vector<std::string> blobs_;
  Wires wires_;
};

}  // namespace

Wires connect_all(NetContext& context, Rendezvous& rendezvous, const ConnectOptions& options) {
  if (options.ranks == 1) return {};
  return Connector(context, rendezvous, options).run();
}

void close_all(Net& net, Wires& wires) {
  for (auto& ring : wires.rings) {
    if (ring.to_next != nullptr) net.close_send(ring.to_next);
    if (ring.from_previous != nullptr) net.close_receive(ring.from_previous);
  }
  for (void* connection : wires.to_rank) {
    if (connection != nullptr) net.close_send(connection);
  }
  for (void* connection : wires.from_rank) {
    if (connection != nullptr) net.close_receive(connection);
  }
  wires = {};
}

}  // namespace megascale::host
