#include "trainer/parallel/group.h"

namespace megascale::trainer {
namespace {

class Nothing : public Pending {
 public:
  bool done() override { return true; }
  void wait() override {}
};

class SoloGroup : public Group {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  std::string network() const override { return "none"; }
  std::unique_ptr<Pending> sum(std::span<float>) override { return std::make_unique<Nothing>(); }
  std::unique_ptr<Pending> sum(std::span<double>) override { return std::make_unique<Nothing>(); }
  std::unique_ptr<Pending> minimum(std::span<uint64_t>) override { return std::make_unique<Nothing>(); }
};

}  // namespace

std::unique_ptr<Group> make_solo_group() { return std::make_unique<SoloGroup>(); }

}  // namespace megascale::trainer
