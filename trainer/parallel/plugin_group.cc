#include "trainer/parallel/plugin_group.h"

#include <utility>

namespace megascale::trainer {
namespace {

class PluginPending : public Pending {
 public:
  explicit PluginPending(host::Work work) : work_(std::move(work)) {}
  bool done() override { return work_.done(); }
  void wait() override { work_.wait(); }

 private:
  host::Work work_;
};

class PluginGroup : public Group {
 public:
  explicit PluginGroup(std::unique_ptr<host::Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  int rank() const override { return communicator_->rank(); }
  int ranks() const override { return communicator_->ranks(); }
  std::string network() const override { return communicator_->network(); }
  void keep(std::span<float> data) override {
    communicator_->keep_registered(data.data(), data.size_bytes());
  }

  std::unique_ptr<Pending> sum(std::span<float> data) override {
    return reduce(data.data(), data.size(), host::DataType::f32, host::ReduceOp::sum);
  }
  std::unique_ptr<Pending> sum(std::span<double> data) override {
    return reduce(data.data(), data.size(), host::DataType::f64, host::ReduceOp::sum);
  }
  std::unique_ptr<Pending> minimum(std::span<uint64_t> data) override {
    return reduce(data.data(), data.size(), host::DataType::u64, host::ReduceOp::min);
  }

 private:
  std::unique_ptr<Pending> reduce(void* data, size_t count, host::DataType type, host::ReduceOp op) {
    return std::make_unique<PluginPending>(communicator_->all_reduce(data, data, count, type, op));
  }

  std::unique_ptr<host::Communicator> communicator_;
};

}  // namespace

std::unique_ptr<Group> make_plugin_group(const host::CommunicatorOptions& options) {
  return std::make_unique<PluginGroup>(host::Communicator::create(options));
}

}  // namespace megascale::trainer
