// The ranks that work on one thing together, and the few collectives the trainer needs of them.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace megascale::trainer {

// An operation that is on its way. Both calls drive it on, and throw std::runtime_error naming the peer when
// the network gave up. The memory it was given belongs to it until it is done.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool done() = 0;
  virtual void wait() = 0;
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual std::string network() const = 0;  // what the collectives travel over, for people

  // This memory will be summed again and again, and outlives the group: what needs doing once for it is done
  // now.
  virtual void keep(std::span<float>) {}

  // Element by element, in place, with the same bits on every rank and in every run.
  virtual std::unique_ptr<Pending> sum(std::span<float> data) = 0;
  virtual std::unique_ptr<Pending> sum(std::span<double> data) = 0;
  virtual std::unique_ptr<Pending> minimum(std::span<uint64_t> data) = 0;

  // Whether every rank came with the same value: a collective call.
  bool agree(uint64_t value) {
    uint64_t bounds[2] = {value, ~value};
    minimum(bounds)->wait();
    return bounds[0] == ~bounds[1];
  }
};

// One rank alone: nothing to do.
std::unique_ptr<Group> make_solo_group();

}  // namespace megascale::trainer
