// How much buffer a lossless port needs for what still arrives after it asked its neighbour to pause.
#pragma once
#include "cc/units.h"

namespace megascale::sim {

// A neighbour's port stops this long after the pause frame has arrived, in quanta of 512 bit times (IEEE
// 802.3 annex 31B counts in them and allows up to 394 at 100 Gbit/s; switches need about this many).
inline constexpr unsigned kPauseResponseQuanta = 16;
inline constexpr Bytes kPauseFrame = 64;

struct HeadroomCase {
  Rate rate;            // of the link
  Duration delay{0};    // of the link, one way
  Duration latency{0};  // of the switch, until it sees what has arrived
  Bytes packet = 4160;  // the greatest on the wire
};

// IEEE 802.1Qbb annex O: twice the delay at the link's rate; a packet that the pause frame waits for and one
// that had just begun when it took effect; the pause frame itself and the response to it.
Bytes headroom_needed(const HeadroomCase&);

}  // namespace megascale::sim
