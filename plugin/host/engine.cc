#include "plugin/host/engine.h"

#include <algorithm>
#include <cstring>

#include "plugin/host/communicator.h"
#include "plugin/host/log.h"

namespace megascale::host {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kExplanation = 300ms;  // how long an error waits for the news of who failed first
constexpr auto kMoment = 20us;
constexpr auto kDoze = 250us;  // of the thread while others push, and while it finds nothing to do
constexpr int kDozesBeforeSleep = 40;

// A waiting thread: spins a little, since an answer on a fast network takes microseconds, then sleeps for
// moments, since more ranks than cores is normal on one host. It does not yield: threads that only yield may
// starve those that they wait for.
class Patience {
 public:
  static constexpr int kSpins = 64;

  void rest(bool moved) {
    if (moved) {
      idle_ = 0;
    } else if (++idle_ > kSpins) {
      std::this_thread::sleep_for(kMoment);
    } else {
#ifdef __x86_64__
      __builtin_ia32_pause();
#endif
    }
  }
  int idle() const { return idle_; }

 private:
  int idle_ = 0;
};

}  // namespace

Engine::Engine(std::unique_ptr<Rendezvous> rendezvous, std::unique_ptr<NetContext> context, Wires wires,
               const EngineOptions& options)
    : options_(options),
      rendezvous_(std::move(rendezvous)),
      context_(std::move(context)),
      registrar_(context_->net()),
      wires_(std::move(wires)) {
  const int next = (options.rank + 1) % options.ranks;
  const int previous = (options.rank + options.ranks - 1) % options.ranks;
  for (const auto& wire : wires_.rings) {
    rings_.push_back(std::make_unique<Ring>(net(), wire, options.rank, next, previous));
  }
  for (int peer = 0; peer < static_cast<int>(wires_.to_rank.size()); ++peer) {
    const auto index = static_cast<size_t>(peer);
    const bool other = peer != options.rank;
    to_rank_.push_back(
        other ? std::make_unique<SendLane>(net(), wires_.to_rank[index], peer, options.rank, nullptr)
              : nullptr);
    from_rank_.push_back(
        other ? std::make_unique<ReceiveLane>(net(), wires_.from_rank[index], peer, options.rank, nullptr)
              : nullptr);
  }
  if (options.progress_thread && options.ranks > 1) thread_ = std::thread([this] { background(); });
}

Engine::~Engine() { shut_down(); }

void Engine::need_scratch() {
  std::lock_guard lock(scratch_mutex_);
  for (auto& ring : rings_) {
    if (ring->scratch) continue;
    auto scratch = std::make_unique<Scratch>(options_.chunk);
    std::vector<Operation::Registration> lasts_as_long_as_the_connection;
    scratch->send_region = registrar_.reg(ring->send.connection(), scratch->memory(), scratch->size(),
                                          lasts_as_long_as_the_connection);
    scratch->receive_region = registrar_.reg(ring->receive.connection(), scratch->memory(), scratch->size(),
                                             lasts_as_long_as_the_connection);
    std::lock_guard lanes(mutex_);
    ring->send.use(scratch.get());
    ring->receive.use(scratch.get());
    ring->scratch = std::move(scratch);
  }
}

void Engine::submit(const std::shared_ptr<Operation>& operation, std::vector<Placed> placed) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) throw NetworkError(culprit_, failure_);
    for (Placed& place : placed) {
      Task& task = *place.task;
      task.operation = operation.get();
      if (!task.plan.sends.empty()) place.send->enqueue(task);
      if (!task.plan.receives.empty()) place.receive->enqueue(task);
      operation->tasks.push_back(std::move(place.task));
    }
    operation->tasks_left = operation->tasks.size();
    outstanding_.push_back(operation);
    busy_.fetch_add(1, std::memory_order_relaxed);
    if (operation->tasks_left == 0) {
      finish(*operation);
    } else if (progress_locked()) {
      moves_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  wake();
}

void Engine::submit_to_self(const std::shared_ptr<Operation>& operation, const void* send, void* receive,
                            size_t bytes) {
  std::lock_guard lock(mutex_);
  if (closed_) throw NetworkError(culprit_, failure_);
  outstanding_.push_back(operation);
  busy_.fetch_add(1, std::memory_order_relaxed);
  (send != nullptr ? self_sends_ : self_receives_).push_back({operation, send, receive, bytes});
  while (!self_sends_.empty() && !self_receives_.empty()) {
    const Letter from = std::move(self_sends_.front()), to = std::move(self_receives_.front());
    self_sends_.pop_front();
    self_receives_.pop_front();
    if (from.bytes != to.bytes) {
      return fail_locked(options_.rank, "rank " + std::to_string(options_.rank) + " sends itself " +
                                            std::to_string(from.bytes) + " bytes and expects " +
                                            std::to_string(to.bytes));
    }
    if (from.bytes > 0) std::memcpy(to.place, from.data, from.bytes);
    finish(*from.operation);
    finish(*to.operation);
  }
}

bool Engine::progress() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const bool moved = progress_locked();
  if (moved) moves_.fetch_add(1, std::memory_order_relaxed);
  return moved;
}

bool Engine::progress_locked() {
  if (closed_) return false;
  if (rendezvous_->failed()) {
    const auto failure = rendezvous_->failure();
    fail_locked(failure->culprit, failure->text);
    return true;
  }
  bool moved = false;
  auto push = [&](auto& lane) {
    if (!lane.idle()) moved |= lane.progress(complete_);
  };
  try {
    for (auto& ring : rings_) push(ring->receive), push(ring->send);
    for (auto& lane : from_rank_) {
      if (lane) push(*lane);
    }
    for (auto& lane : to_rank_) {
      if (lane) push(*lane);
    }
  } catch (const LaneError& error) {
    settle();
    lost(error);
    return true;
  }
  settle();
  return moved;
}

void Engine::settle() {
  for (Task* task : complete_) {
    if (--task->operation->tasks_left == 0) finish(*task->operation);
  }
  complete_.clear();
}

void Engine::finish(Operation& operation) {
  registrar_.undo(operation.registrations);
  const auto found = std::find_if(outstanding_.begin(), outstanding_.end(),
                                  [&](const auto& other) { return other.get() == &operation; });
  const std::shared_ptr<Operation> kept = *found;  // its waiter may let go as soon as it is finished
  outstanding_.erase(found);
  busy_.fetch_sub(1, std::memory_order_relaxed);
  kept->finished.store(true, std::memory_order_release);
}

// The rank at the other end of a broken connection need not be the one that failed: it may itself have
// stopped because of another, and the news of that travels beside the network.
void Engine::lost(const LaneError& error) {
  const auto elsewhere = rendezvous_->await_failure(kExplanation);
  if (elsewhere) return fail_locked(elsewhere->culprit, elsewhere->text);
  const auto departed = rendezvous_->departed();
  const bool gone = std::find(departed.begin(), departed.end(), error.peer()) != departed.end();
  const int culprit = gone || departed.empty() ? error.peer() : departed.front();
  std::string text = "rank " + std::to_string(options_.rank) + " lost rank " + std::to_string(culprit);
  if (!departed.empty()) text += ", whose process is gone";
  if (culprit != error.peer())
    text += " (the connection with rank " + std::to_string(error.peer()) + " ended)";
  fail_locked(culprit, text + ": " + error.what());
}

void Engine::fail_locked(int culprit, const std::string& what) {
  if (closed_) return;
  culprit_ = culprit;
  failure_ = what;
  if (!rendezvous_->failed()) rendezvous_->report_failure({culprit, what});
  close_locked();
}

void Engine::close_locked() {
  closed_ = true;
  auto forget = [](auto& lane) { lane.forget_everything(); };
  for (auto& ring : rings_) forget(ring->receive), forget(ring->send);
  for (auto& lane : from_rank_) {
    if (lane) forget(*lane);
  }
  for (auto& lane : to_rank_) {
    if (lane) forget(*lane);
  }
  registrar_.close();  // with operations in flight, as NCCL does it
  close_all(net(), wires_);
  complete_.clear();
  self_sends_.clear();
  self_receives_.clear();
  for (const auto& operation : std::exchange(outstanding_, {})) {
    operation->error = failure_;
    operation->culprit = culprit_;
    operation->finished.store(true, std::memory_order_release);
  }
  busy_.store(0, std::memory_order_relaxed);
}

void Engine::abort(int culprit, const std::string& what) {
  std::lock_guard lock(mutex_);
  fail_locked(culprit, what);
}

void Engine::throw_if_aborted() {
  std::lock_guard lock(mutex_);
  if (closed_) throw NetworkError(culprit_, failure_);
}

void Engine::check(const Operation& operation) {
  if (!operation.error.empty()) throw NetworkError(operation.culprit, operation.error);
}

void Engine::wait(const Operation& operation) {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  Patience patience;
  uint64_t seen = moves_.load(std::memory_order_relaxed);
  std::optional<Clock::time_point> deadline;
  while (!operation.finished.load(std::memory_order_acquire)) {
    patience.rest(progress());
    if (patience.idle() % 4096 != 4095) continue;
    const uint64_t now = moves_.load(std::memory_order_relaxed);
    if (now != seen || !deadline) {
      seen = now;
      deadline = Clock::now() + options_.stall_timeout;
    } else if (Clock::now() > *deadline) {
      abort(-1, "rank " + std::to_string(options_.rank) + " waited " +
                    std::to_string(options_.stall_timeout.count()) + " s in " + operation.name +
                    " and not a byte moved: some rank does not take part, though its host answers");
    }
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  check(operation);
}

void Engine::background() {
  int dozes = 0;
  Patience patience;
  while (!ending_.load(std::memory_order_acquire)) {
    const bool busy = busy_.load(std::memory_order_relaxed) > 0;
    if (busy && waiting_.load(std::memory_order_relaxed) == 0) {
      dozes = 0;
      patience.rest(progress());
      if (patience.idle() > 4 * Patience::kSpins) std::this_thread::sleep_for(kDoze);
      continue;
    }
    std::unique_lock lock(thread_mutex_);
    if (!busy && ++dozes > kDozesBeforeSleep) {
      parked_ = true;
      thread_wakes_.wait(lock, [&] {
        return ending_.load(std::memory_order_acquire) || busy_.load(std::memory_order_relaxed) > 0;
      });
      parked_ = false;
      dozes = 0;
    } else {
      thread_wakes_.wait_for(lock, kDoze, [&] { return ending_.load(std::memory_order_acquire); });
    }
  }
}

void Engine::wake() {
  if (!thread_.joinable() || busy_.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard lock(thread_mutex_);
  if (parked_) thread_wakes_.notify_one();
}

void Engine::shut_down() {
  {
    std::lock_guard lock(thread_mutex_);
    ending_.store(true, std::memory_order_release);
    thread_wakes_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  std::lock_guard lock(mutex_);
  if (!closed_) {
    failure_ = "the communicator of rank " + std::to_string(options_.rank) + " was destroyed";
    culprit_ = options_.rank;
    close_locked();
  }
  context_.reset();  // handles may outlive the communicator; what the plugin holds must not
  rendezvous_.reset();
}

}  // namespace megascale::host
