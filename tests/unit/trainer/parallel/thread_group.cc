#include "tests/unit/trainer/parallel/thread_group.h"

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace megascale::trainer {
namespace {

// The n-th collective of every rank is one operation: complete when all have brought their data.
struct Operation {
  std::vector<std::function<void()>> publish;  // by rank: puts the result into that rank's memory
  std::vector<std::function<void()>> add;      // by rank: adds that rank's data to the result
  int arrived = 0;
  bool complete = false;
};

struct Meeting {
  explicit Meeting(int count) : ranks(count) {}
  int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, std::shared_ptr<Operation>> operations;
  bool broken = false;
};

class ThreadPending : public Pending {
 public:
  ThreadPending(Meeting* meeting, std::shared_ptr<Operation> operation)
      : meeting_(meeting), operation_(std::move(operation)) {}
  bool done() override {
    const std::lock_guard lock(meeting_->mutex);
    return operation_->complete;
  }
  void wait() override {
    std::unique_lock lock(meeting_->mutex);
    meeting_->changed.wait(lock, [&] { return operation_->complete || meeting_->broken; });
    if (!operation_->complete) throw std::runtime_error("another rank failed");
  }

 private:
  Meeting* meeting_;
  std::shared_ptr<Operation> operation_;
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(Meeting* meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return meeting_->ranks; }
  std::string network() const override { return "threads"; }
  std::unique_ptr<Pending> sum(std::span<float> data) override {
    return reduce(data, [](float a, float b) { return a + b; });
  }
  std::unique_ptr<Pending> sum(std::span<double> data) override {
    return reduce(data, [](double a, double b) { return a + b; });
  }
  std::unique_ptr<Pending> minimum(std::span<uint64_t> data) override {
    return reduce(data, [](uint64_t a, uint64_t b) { return a < b ? a : b; });
  }

 private:
  // Added up in the order of ranks, whoever came first.
  template <class T, class Combine>
  std::unique_ptr<Pending> reduce(std::span<T> data, Combine combine) {
    const std::lock_guard lock(meeting_->mutex);
    auto& operation = meeting_->operations[next_++];
    const auto ranks = static_cast<size_t>(meeting_->ranks), me = static_cast<size_t>(rank_);
    if (!operation) operation = std::make_shared<Operation>();
    operation->publish.resize(ranks);
    operation->add.resize(ranks);
    operation->add[me] = [this, data, combine] {
      auto& result = results<T>();
      if (rank_ == 0) result.assign(data.begin(), data.end());
      else
        for (size_t i = 0; i < data.size(); ++i) result.at(i) = combine(result.at(i), data[i]);
    };
    operation->publish[me] = [data] { std::copy(results<T>().begin(), results<T>().end(), data.begin()); };
    if (++operation->arrived == meeting_->ranks) {
      for (const auto& add : operation->add) add();
      for (const auto& publish : operation->publish) publish();
      operation->complete = true;
      meeting_->changed.notify_all();
    }
    return std::make_unique<ThreadPending>(meeting_, operation);
  }

  template <class T>
  static std::vector<T>& results() {
    static thread_local std::vector<T> result;
    return result;
  }

  Meeting* meeting_;
  int rank_;
  size_t next_ = 0;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(std::unique_ptr<Group>)>& body) {
  Meeting meeting(ranks);
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(std::make_unique<ThreadGroup>(&meeting, rank));
      } catch (...) {
        const std::lock_guard lock(meeting.mutex);
        if (!failure) failure = std::current_exception();
        meeting.broken = true;
        meeting.changed.notify_all();
      }
    });
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace megascale::trainer
