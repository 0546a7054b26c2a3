// One seeded schedule: messages of all sizes from a Sender to a Receiver over links that misbehave, then
// peace; and the judgement of what arrived. A seed determines everything.
#pragma once
#include <string>

#include "tests/unit/transport/rails/faulty_dialer.h"

namespace megascale {

struct Verdict {
  enum class Kind : uint8_t {
    good,
    wrong_bytes,     // a message completed with bytes that were not sent, or out of order, or twice
    written_after,   // a buffer changed after its message was complete
    written_beside,  // bytes beyond a message changed
    stuck,           // something did not complete in time after the faults had ceased
    failed,          // a connection gave up
    broken_rule,     // a link was destroyed before its fence
  };
  Kind kind = Kind::good;
  std::string what;
  Happened happened;
  uint64_t messages = 0, replayed = 0;

  bool good() const { return kind == Kind::good; }
  // The user's memory holds what it must not.
  bool corrupt() const { return kind == Kind::wrong_bytes || kind == Kind::written_after; }
};

struct LeaveOut {
  bool fence = false, generation = false, duplicates = false;
};

Verdict run_schedule(uint64_t seed, LeaveOut = {});

}  // namespace megascale
