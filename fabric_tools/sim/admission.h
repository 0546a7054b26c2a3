// Receiver-driven admission (Gangidi et al., SIGCOMM 2024, section 5.2): a sender announces what it wants to
// send, and the receiving NIC lets so many bytes come at once that its link is busy and its switch's queue is
// not.
#pragma once
#include <deque>
#include <vector>

#include "cc/units.h"

namespace megascale::sim {

class Admission {
 public:
  struct Grant {
    uint32_t connection;
    Bytes total;  // of the connection's stream
  };

  // `most`: bytes granted and not yet arrived, for each NIC. `share`: of a connection before the next one's
  // turn.
  Admission(size_t nics, Bytes most, Bytes share) : most_(most), share_(share), inboxes_(nics) {}

  void open(uint32_t connection);  // a new connection at this place
  // A sender has `total` bytes in its stream. True when it should be told again what it was granted: it asks
  // because it may have missed that.
  bool announce(uint32_t nic, uint32_t connection, Bytes total);
  void arrived(uint32_t nic, Bytes bytes) { inboxes_[nic].coming -= static_cast<int64_t>(bytes); }
  // The next one that is due; false when there is none.
  bool next(uint32_t nic, Grant&);
  Bytes granted(uint32_t connection) const { return states_[connection].granted; }

 private:
  struct Inbox {
    int64_t coming = 0;          // under 0 when a packet is not cut where its grant ends
    std::deque<uint32_t> round;  // connections that wait for more
  };
  struct State {
    Bytes announced = 0, granted = 0;
  };

  const Bytes most_, share_;
  std::vector<Inbox> inboxes_;
  std::vector<State> states_;
};

}  // namespace megascale::sim
