#include "plugin/host/communicator.h"

#include <cstring>
#include <functional>
#include <limits>

#include "plugin/host/engine.h"

namespace megascale::host {
namespace {

// Something registrable to point at when a message is empty.
alignas(4096) uint8_t nothing[4096];

}  // namespace

// Assembles an operation: registers memory, then hands the tasks to the engine.
class Communicator::Builder {
 public:
  Builder(Communicator& communicator, const char* name)
      : communicator_(communicator),
        engine_(*communicator.engine_),
        operation_(std::make_shared<Operation>(name)) {
    engine_.throw_if_aborted();
  }
  ~Builder() {
    if (!submitted_) engine_.registrar().undo(operation_->registrations);
  }

  Operation& operation() { return *operation_; }

  struct Memory {
    const void* input = nullptr;
    size_t input_bytes = 0;
    void* output = nullptr;
    size_t output_bytes = 0;
    DataType type = DataType::u8;
    ReduceOp op = ReduceOp::sum;
  };

  // One task a ring; `plan(ring, part)` for the part of `bytes` that each takes.
  void on_rings(const Memory& memory, uint64_t bytes, const std::function<Plan(const Ring&, Part)>& plan) {
    const Ring shape{communicator_.rank(), communicator_.ranks(),
                     static_cast<uint32_t>(communicator_.chunk())};
    const auto rings = static_cast<int>(engine_.rings());
    for (int r = 0; r < rings; ++r) {
      Plan part = plan(shape, part_of(bytes, r, rings));
      Engine::Ring& ring = engine_.ring(static_cast<size_t>(r));
      add(std::move(part), memory, &ring.send, &ring.receive);
    }
  }

  void add(Plan plan, const Memory& memory, SendLane* send, ReceiveLane* receive) {
    if (plan.sends.empty() && plan.receives.empty()) return;
    auto task = std::make_unique<Task>();
    task->input = static_cast<const uint8_t*>(memory.input);
    task->output = static_cast<uint8_t*>(memory.output);
    task->type = memory.type;
    task->op = memory.op;
    bool from_input = false, from_output = false, to_output = false;
    for (const SendStep& step : plan.sends) {
      from_input |= step.from == SendStep::From::input;
      from_output |= step.from == SendStep::From::output;
    }
    for (const ReceiveStep& step : plan.receives) to_output |= step.then == ReceiveStep::Then::place;
    auto& undo = operation_->registrations;
    Registrar& registrar = engine_.registrar();
    if (from_input)
      task->input_region = registrar.reg(send->connection(), memory.input, memory.input_bytes, undo);
    if (from_output) {
      const bool same =
          from_input && memory.input == memory.output && memory.input_bytes == memory.output_bytes;
      task->output_send_region =
          same ? task->input_region
               : registrar.reg(send->connection(), memory.output, memory.output_bytes, undo);
    }
    if (to_output) {
      task->output_receive_region =
          registrar.reg(receive->connection(), memory.output, memory.output_bytes, undo);
    }
    task->plan = std::move(plan);
    placed_.push_back({std::move(task), send, receive});
  }

  Work submit() {
    submitted_ = true;
    engine_.submit(operation_, std::move(placed_));
    return Work(communicator_.engine_, operation_);
  }

  Work to_self(const void* send, void* receive, size_t bytes) {
    submitted_ = true;
    engine_.submit_to_self(operation_, send, receive, bytes);
    return Work(communicator_.engine_, operation_);
  }

 private:
  Communicator& communicator_;
  Engine& engine_;
  std::shared_ptr<Operation> operation_;
  std::vector<Engine::Placed> placed_;
  bool submitted_ = false;
};

namespace {

size_t bytes_for(size_t count, DataType type, int times = 1) {
  const size_t size = size_of(type) * static_cast<size_t>(times);
  if (size == 0 || count > std::numeric_limits<size_t>::max() / 2 / size) {
    throw std::invalid_argument("a count of " + std::to_string(count) + " elements is beyond any memory");
  }
  return count * size;
}

void need(const void* pointer, size_t bytes, const char* what) {
  if (pointer == nullptr && bytes > 0) throw std::invalid_argument(std::string(what) + " is null");
}

void check_peer(int peer, int ranks, const char* what) {
  if (peer < 0 || peer >= ranks) {
    throw std::invalid_argument(std::string(what) + " " + std::to_string(peer) + " is none of the " +
                                std::to_string(ranks) + " ranks");
  }
}

void copy(void* to, const void* from, size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

const uint8_t* at(const void* base, size_t offset) { return static_cast<const uint8_t*>(base) + offset; }
uint8_t* at(void* base, size_t offset) { return static_cast<uint8_t*>(base) + offset; }

}  // namespace

Communicator::Communicator(const CommunicatorOptions& options, std::shared_ptr<Engine> engine)
    : options_(options), engine_(std::move(engine)), network_(engine_->net().name()) {}

Communicator::~Communicator() { engine_->shut_down(); }

bool Work::done() {
  if (!operation_) return true;
  if (!operation_->finished.load(std::memory_order_acquire)) engine_->progress();
  if (!operation_->finished.load(std::memory_order_acquire)) return false;
  Engine::check(*operation_);
  return true;
}

void Work::wait() {
  if (operation_) engine_->wait(*operation_);
}

Work Communicator::send(const void* data, size_t bytes, int peer) {
  check_peer(peer, ranks(), "the receiver");
  need(data, bytes, "what is to be sent");
  Builder builder(*this, "send");
  const void* from = bytes > 0 ? data : nothing;
  if (peer == rank()) return builder.to_self(from, nullptr, bytes);
  builder.add(plan_send(bytes, static_cast<uint32_t>(chunk())),
              {.input = from, .input_bytes = bytes > 0 ? bytes : sizeof nothing}, &engine_->to_rank(peer),
              nullptr);
  return builder.submit();
}

Work Communicator::recv(void* data, size_t bytes, int peer) {
  check_peer(peer, ranks(), "the sender");
  need(data, bytes, "the place for what is received");
  Builder builder(*this, "recv");
  void* to = bytes > 0 ? data : nothing;
  if (peer == rank()) return builder.to_self(nullptr, to, bytes);
  builder.add(plan_receive(bytes, static_cast<uint32_t>(chunk())),
              {.output = to, .output_bytes = bytes > 0 ? bytes : sizeof nothing}, nullptr,
              &engine_->from_rank(peer));
  return builder.submit();
}

Work Communicator::broadcast(void* data, size_t count, DataType type, int root) {
  check_peer(root, ranks(), "the root");
  const size_t bytes = bytes_for(count, type);
  need(data, bytes, "the buffer");
  Builder builder(*this, "broadcast");
  builder.on_rings({.output = data, .output_bytes = bytes}, bytes,
                   [=](const Ring& ring, Part part) { return plan_broadcast(ring, part, root); });
  return builder.submit();
}

Work Communicator::all_gather(const void* mine, void* all, size_t count_per_rank, DataType type) {
  const size_t whole = bytes_for(count_per_rank, type, ranks()), share = whole / static_cast<size_t>(ranks());
  need(mine, share, "the input");
  need(all, whole, "the output");
  Builder builder(*this, "all_gather");
  copy(at(all, share * static_cast<size_t>(rank())), mine, share);
  builder.on_rings({.input = mine, .input_bytes = share, .output = all, .output_bytes = whole}, share,
                   [=](const Ring& ring, Part part) { return plan_all_gather(ring, part, share); });
  return builder.submit();
}

Work Communicator::reduce_scatter(const void* all, void* mine, size_t count_per_rank, DataType type,
                                  ReduceOp op) {
  const size_t whole = bytes_for(count_per_rank, type, ranks()), share = whole / static_cast<size_t>(ranks());
  need(all, whole, "the input");
  need(mine, share, "the output");
  Builder builder(*this, "reduce_scatter");
  if (ranks() == 1) copy(mine, all, share);
  engine_->need_scratch();
  builder.on_rings({all, whole, mine, share, type, op}, share,
                   [=](const Ring& ring, Part part) { return plan_reduce_scatter(ring, part, share); });
  return builder.submit();
}

Work Communicator::all_reduce(const void* in, void* out, size_t count, DataType type, ReduceOp op) {
  const size_t bytes = bytes_for(count, type);
  need(in, bytes, "the input");
  need(out, bytes, "the output");
  Builder builder(*this, "all_reduce");
  if (ranks() == 1) copy(out, in, bytes);
  engine_->need_scratch();
  builder.on_rings({in, bytes, out, bytes, type, op}, bytes, plan_all_reduce);
  return builder.submit();
}

Work Communicator::all_to_all(const void* in, void* out, size_t count_per_pair, DataType type) {
  const size_t whole = bytes_for(count_per_pair, type, ranks()), share = whole / static_cast<size_t>(ranks());
  need(in, whole, "the input");
  need(out, whole, "the output");
  if (in == out && whole > 0)
    throw std::invalid_argument("all_to_all cannot work in place: give two buffers");
  Builder builder(*this, "all_to_all");
  const size_t own = share * static_cast<size_t>(rank());
  copy(at(out, own), at(in, own), share);
  for (int step = 1; step < ranks() && share > 0; ++step) {
    // Everyone begins with another receiver. What comes from a rank is posted beside what goes to one.
    const int to = (rank() + step) % ranks(), from = (rank() + ranks() - step) % ranks();
    builder.add(plan_receive(share, static_cast<uint32_t>(chunk())),
                {.output = at(out, share * static_cast<size_t>(from)), .output_bytes = share}, nullptr,
                &engine_->from_rank(from));
    builder.add(plan_send(share, static_cast<uint32_t>(chunk())),
                {.input = at(in, share * static_cast<size_t>(to)), .input_bytes = share},
                &engine_->to_rank(to), nullptr);
  }
  return builder.submit();
}

Work Communicator::barrier() {
  Builder builder(*this, "barrier");
  auto& memory = builder.operation().own_memory;
  memory.assign(1, 0);
  engine_->need_scratch();
  builder.on_rings({memory.data(), 1, memory.data(), 1, DataType::u8, ReduceOp::max}, 1, plan_all_reduce);
  return builder.submit();
}

void Communicator::keep_registered(const void* data, size_t bytes) { engine_->registrar().keep(data, bytes); }
void Communicator::drop_registered(const void* data) { engine_->registrar().drop(data); }

void Communicator::abort(const std::string& why) {
  engine_->abort(rank(), "rank " + std::to_string(rank()) + " aborted: " + why);
}

}  // namespace megascale::host
