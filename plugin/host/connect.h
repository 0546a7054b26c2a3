// The connections of a communicator: a ring or several, and a pair each way between any two ranks for what
// goes from one to another. All are made at once, at birth: nobody polls for connections later.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "plugin/host/loader.h"
#include "plugin/host/rendezvous.h"

namespace megascale::host {

struct Wires {
  struct RingWire {
    void* to_next = nullptr;
    void* from_previous = nullptr;
  };
  std::vector<RingWire> rings;   // none when there is one rank
  std::vector<void*> to_rank;    // by rank; null for this one
  std::vector<void*> from_rank;  // by rank; null for this one
};

struct ConnectOptions {
  int rank = 0;
  int ranks = 1;
  int rings = 1;
  int device = 0;  // of the first ring and the pairs; ring r uses the r-th after it
  std::chrono::milliseconds timeout{120'000};
};

// Throws std::runtime_error naming the ranks that could not be reached; nothing is left open then.
Wires connect_all(NetContext&, Rendezvous&, const ConnectOptions&);

void close_all(Net&, Wires&);

}  // namespace megascale::host
