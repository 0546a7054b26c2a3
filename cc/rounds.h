// Counts round trips by what was in flight when one began: it is over when all of that is acknowledged,
// however late or seldom acknowledgements come.
#pragma once
#include "cc/units.h"

namespace megascale {

class Rounds {
 public:
  void sent(Bytes inflight) { next_ = acked_ + inflight; }

  // True when this acknowledgement ends a round; the next one begins with what is in flight now.
  bool acked(uint64_t sequence) {
    if (sequence > acked_) acked_ = sequence;
    if (next_ < acked_) next_ = acked_;
    if (acked_ < end_) return false;
    restart();
    return true;
  }
  void restart() { end_ = next_ > acked_ ? next_ : acked_ + 1; }

 private:
  uint64_t acked_ = 0;  // the first byte that is not acknowledged
  uint64_t next_ = 0;   // the next byte to send
  uint64_t end_ = 1;    // the round ends when bytes before this are acknowledged
};

}  // namespace megascale
