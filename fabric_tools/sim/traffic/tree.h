// All-reduce over two binary trees, each of which carries half of the buffer: chunks are summed on their way
// up and handed out on their way down. Who is a leaf in one tree is an inner node of the other (Sanders,
// Speck, Träff, Parallel Computing 2009), so that no NIC carries more than others.
#pragma once
#include <array>
#include <vector>

#include "fabric_tools/sim/traffic/groups.h"
#include "fabric_tools/sim/traffic/workload.h"

namespace megascale::sim {

class TreeAllReduce : public Counted {
 public:
  TreeAllReduce(const Groups&, Bytes buffer, Bytes chunk);

  void begin(Wire&) override;
  void delivered(Wire&, const Delivery&) override;
  uint64_t connections() const override;

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  struct Node {  // a NIC's place in one tree
    uint32_t nic = 0, tree = 0;
    uint32_t parent = kNobody;
    std::array<uint32_t, 2> children{kNobody, kNobody};
    std::array<uint64_t, 2> summed{};  // chunks that came from each child
    uint64_t sent_up = 0, received_down = 0;
    ConnectionId to_parent = 0;
    std::array<ConnectionId, 2> to_children{};
  };

  void add_tree(const std::vector<uint32_t>& nics, uint32_t tree);
  void send_up(Wire&, uint32_t node);  // what all its children have sent
  void send_down(Wire&, uint32_t node, uint64_t chunk);
  Bytes bytes_of(const Node&, uint64_t chunk) const;
  uint64_t chunks(const Node&) const;

  Bytes buffer_, chunk_;
  std::vector<Node> nodes_;
};

}  // namespace megascale::sim
