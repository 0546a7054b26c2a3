#include "fabric_tools/sim/admission.h"

#include <algorithm>

namespace megascale::sim {

void Admission::open(uint32_t connection) {
  if (states_.size() <= connection) states_.resize(connection + 1);
  states_[connection] = {};
}

bool Admission::announce(uint32_t nic, uint32_t connection, Bytes total) {
  State& state = states_[connection];
  if (total <= state.announced) return true;
  if (state.granted == state.announced) inboxes_[nic].round.push_back(connection);
  state.announced = total;
  return false;
}

bool Admission::next(uint32_t nic, Grant& grant) {
  Inbox& inbox = inboxes_[nic];
  if (inbox.round.empty() || inbox.coming >= static_cast<int64_t>(most_)) return false;
  const uint32_t connection = inbox.round.front();
  inbox.round.pop_front();
  State& state = states_[connection];
  const Bytes more = std::min({state.announced - state.granted, share_,
                               most_ - static_cast<Bytes>(std::max<int64_t>(inbox.coming, 0))});
  state.granted += more;
  inbox.coming += static_cast<int64_t>(more);
  if (state.granted < state.announced) inbox.round.push_back(connection);
  grant = {connection, state.granted};
  return true;
}

}  // namespace megascale::sim
