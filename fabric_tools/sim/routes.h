// Which ports of a switch lead to a NIC: all shortest ways down where there is one, else all shortest ways
// up. A packet that has gone down never goes up again, so in a tiered network no cycle of waiting buffers can
// form. Switches of one tier that are joined count as neither up nor down.
//
// The table has a row for each switch and a column for each ToR, never one for each NIC.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fabric_tools/topology/topology.h"

namespace megascale::sim {

// The port at the low end of a link sends up, that at the high end down; port ^ 1 is the one opposite.
constexpr uint32_t up_port(uint32_t link) { return 2 * link; }
constexpr uint32_t down_port(uint32_t link) { return 2 * link + 1; }

class Routes {
 public:
  explicit Routes(const Topology&);

  // Anew, leaving out the links that are not usable: one flag for each link.
  void compute(const std::vector<bool>& usable);

  // Empty: there is no way.
  std::span<const uint32_t> ports(uint32_t at_switch, uint32_t to_nic) const {
    const Choice& c = choices_[table_[size_t{at_switch} * tors_ + column_[to_nic]]];
    if (c.count != 0) return {&ports_[c.first], c.count};
    return c.local ? std::span(&last_port_[to_nic], last_usable_[to_nic] ? 1 : 0)
                   : std::span<const uint32_t>();
  }

 private:
  struct Choice {
    uint32_t first = 0, count = 0;
    bool local = false;  // the NIC hangs on this very switch
  };

  void fill_column(uint32_t column, class RouteSearch&, const std::vector<bool>& usable);
  uint32_t intern(uint32_t at_switch, const std::vector<uint32_t>& ports);

  const Topology& topology_;
  uint32_t tors_ = 0;
  std::vector<uint32_t> tor_switch_;  // of a column
  std::vector<uint32_t> column_;      // of a NIC's ToR
  std::vector<uint32_t> last_port_;   // of a NIC: that of its ToR that leads to it
  std::vector<bool> last_usable_;
  std::vector<uint32_t> table_;
  std::vector<Choice> choices_;  // 0: no way; 1: local
  std::vector<uint32_t> ports_;
  std::vector<std::vector<uint32_t>> known_;  // choices of each switch, while computing
};

}  // namespace megascale::sim
