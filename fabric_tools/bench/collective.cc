#include "fabric_tools/bench/collective.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "fabric_tools/bench/clock.h"
#include "fabric_tools/bench/pattern.h"
#include "fabric_tools/progress.h"

namespace megascale {
namespace {

using host::Communicator;
using host::DataType;
using host::ReduceOp;

// A page-aligned buffer that is touched before anything is timed.
class Buffer {
 public:
  explicit Buffer(size_t bytes) {
    constexpr size_t page = 4096;
    const size_t size = std::max(page, (bytes + page - 1) / page * page);
    memory_.reset(std::aligned_alloc(page, size));
    if (!memory_) throw std::bad_alloc();
    std::fill_n(static_cast<char*>(memory_.get()), size, static_cast<char>(0xff));
  }
  void* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
};

class Runner {
 public:
  Runner(Communicator& communicator, const Circumstances& what)
      : communicator_(communicator),
        what_(what),
        options_(what.options),
        pattern_{options_.collective, options_.type, options_.op, communicator.ranks(), options_.root},
        progress_(communicator.rank() == 0) {}

  std::vector<CollectiveRow> run() {
    const std::vector<uint64_t> sizes = sizes_of(options_);
    for (uint64_t size : sizes) rows_.push_back(empty_row(size));
    if (options_.duration.count() > 0) {
      sweep_until_over();
    } else {
      for (CollectiveRow& row : rows_) {
        measure(row);
        progress_.clear();
        if (communicator_.rank() == 0) print_row(what_, row);
      }
    }
    return rows_;
  }

 private:
  // The share of a rank where the collective has shares, else everything.
  size_t count_of(const CollectiveRow& row) const {
    return shares() ? row.count / static_cast<size_t>(communicator_.ranks()) : row.count;
  }
  bool shares() const {
    return options_.collective == Collective::all_gather ||
           options_.collective == Collective::reduce_scatter || options_.collective == Collective::all_to_all;
  }

  CollectiveRow empty_row(uint64_t size) const {
    CollectiveRow row;
    const size_t width = host::size_of(options_.type);
    row.count = size / width;
    if (shares())
      row.count =
          row.count / static_cast<size_t>(communicator_.ranks()) * static_cast<size_t>(communicator_.ranks());
    row.bytes = row.count * width;
    return row;
  }

  void begin(const void* in, void* out, size_t count, std::vector<host::Work>& works) {
    Communicator& c = communicator_;
    const DataType type = options_.type;
    const ReduceOp op = options_.op;
    const size_t bytes = count * host::size_of(type);
    switch (options_.collective) {
      case Collective::all_reduce:
        works.push_back(c.all_reduce(in, out, count, type, op));
        break;
      case Collective::all_gather:
        works.push_back(c.all_gather(in, out, count, type));
        break;
      case Collective::reduce_scatter:
        works.push_back(c.reduce_scatter(in, out, count, type, op));
        break;
      case Collective::all_to_all:
        works.push_back(c.all_to_all(in, out, count, type));
        break;
      case Collective::barrier:
        works.push_back(c.barrier());
        break;
      case Collective::broadcast:
        // In place at the root, whose buffer holds the input.
        works.push_back(
            c.broadcast(c.rank() == options_.root ? const_cast<void*>(in) : out, count, type, options_.root));
        break;
      case Collective::sendrecv:
        works.push_back(c.recv(out, bytes, (c.rank() + c.ranks() - 1) % c.ranks()));
        works.push_back(c.send(in, bytes, (c.rank() + 1) % c.ranks()));
        break;
    }
  }

  void once(const void* in, void* out, size_t count) {
    works_.clear();
    begin(in, out, count, works_);
    for (host::Work& work : works_) work.wait();
  }

  uint64_t sum_over_ranks(uint64_t mine) { return reduced(mine, DataType::u64, ReduceOp::sum); }
  double most_over_ranks(double mine) { return reduced(mine, DataType::f64, ReduceOp::max); }
  template <class T>
  T reduced(T mine, DataType type, ReduceOp op) {
    T result{};
    communicator_.all_reduce(&mine, &result, 1, type, op).wait();
    return result;
  }

  uint64_t check(const void* in, const void* out, size_t count, uint32_t iteration) {
    const bool root = options_.collective == Collective::broadcast && communicator_.rank() == options_.root;
    return pattern_.wrong_elements(root ? in : out, communicator_.rank(), count, iteration);
  }

  struct Buffers {
    Buffer in, out;
  };
  Buffers buffers_for(size_t count) const {
    const size_t width = host::size_of(options_.type);
    return {Buffer(pattern_.input_elements(count) * width), Buffer(pattern_.output_elements(count) * width)};
  }

  // nccl-tests' way: operations one after another between two clock readings, then as many checked ones as
  // asked for, each with another input.
  void measure(CollectiveRow& row) {
    const size_t count = count_of(row);
    const Buffers b = buffers_for(count);
    const Kept kept(communicator_, b, pattern_, count, host::size_of(options_.type));
    const auto iterations = static_cast<uint32_t>(options_.iterations);
    pattern_.fill_input(b.in.data(), communicator_.rank(), count, 0);
    for (int i = 0; i < options_.warm_up; ++i) once(b.in.data(), b.out.data(), count);
    communicator_.barrier().wait();
    const auto start = Clock::now();
    for (uint32_t i = 0; i < iterations; ++i) {
      once(b.in.data(), b.out.data(), count);
      progress_.show([&] {
        return std::to_string(row.bytes) + " bytes: " + std::to_string(i + 1) + " of " +
               std::to_string(iterations) + " operations";
      });
    }
    row.seconds = most_over_ranks(since(start) / iterations);
    row.operations = iterations;
    uint64_t wrong = options_.checks > 0 ? check(b.in.data(), b.out.data(), count, 0) : 0;
    for (uint32_t i = 1; i <= static_cast<uint32_t>(options_.checks); ++i) {
      pattern_.fill_input(b.in.data(), communicator_.rank(), count, i);
      once(b.in.data(), b.out.data(), count);
      wrong += check(b.in.data(), b.out.data(), count, i);
    }
    row.wrong = sum_over_ranks(wrong);
  }

  // Every operation is timed by itself, has an input of its own and is checked: for runs during which things
  // break.
  void sweep_until_over() {
    const auto start = Clock::now();
    uint64_t operations = 0, wrong = 0;
    for (uint32_t iteration = 1;; ++iteration) {
      for (CollectiveRow& row : rows_) {
        const size_t count = count_of(row);
        const Buffers b = buffers_for(count);
        pattern_.fill_input(b.in.data(), communicator_.rank(), count, iteration);
        communicator_.barrier().wait();
        const auto before = Clock::now();
        once(b.in.data(), b.out.data(), count);
        const double seconds = most_over_ranks(since(before));
        row.seconds += (seconds - row.seconds) / static_cast<double>(++row.operations);
        row.longest = std::max(row.longest, seconds);
        const uint64_t here = sum_over_ranks(check(b.in.data(), b.out.data(), count, iteration));
        row.wrong += here;
        wrong += here;
        ++operations;
        progress_.show([&] {
          return std::to_string(static_cast<int>(since(start))) + " of " +
                 std::to_string(static_cast<int>(options_.duration.count())) +
                 " s: " + std::to_string(operations) + " operations, " + std::to_string(wrong) +
                 " wrong elements";
        });
      }
      // Rank 0's clock decides for all.
      const bool over = since(start) >= options_.duration.count();
      if (reduced<uint64_t>(communicator_.rank() == 0 && over, DataType::u64, ReduceOp::max) != 0) break;
    }
    progress_.clear();
    if (communicator_.rank() != 0) return;
    for (const CollectiveRow& row : rows_) print_row(what_, row);
  }

  // Registers the buffers for as long as a size is measured, as a long-running program would.
  class Kept {
   public:
    Kept(Communicator& c, const Buffers& b, const Pattern& p, size_t count, size_t width) : c_(c), b_(b) {
      c.keep_registered(b.in.data(), std::max<size_t>(1, p.input_elements(count) * width));
      c.keep_registered(b.out.data(), std::max<size_t>(1, p.output_elements(count) * width));
    }
    ~Kept() {
      c_.drop_registered(b_.in.data());
      c_.drop_registered(b_.out.data());
    }
    Kept(const Kept&) = delete;

   private:
    Communicator& c_;
    const Buffers& b_;
  };

  Communicator& communicator_;
  const Circumstances& what_;
  const BenchOptions& options_;
  const Pattern pattern_;
  Progress progress_;
  std::vector<host::Work> works_;
  std::vector<CollectiveRow> rows_;
};

}  // namespace

std::vector<CollectiveRow> run_collective(Communicator& communicator, const Circumstances& what) {
  return Runner(communicator, what).run();
}

}  // namespace megascale
