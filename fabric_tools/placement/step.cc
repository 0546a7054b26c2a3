#include "fabric_tools/placement/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace megascale {

void refuse(const std::string& why) { throw std::invalid_argument(why); }

namespace {

void check(const TrainingModel& m, const Parallel& p) {
  if (p.tensor == 0 || p.pipeline == 0 || p.data == 0)
    refuse("tensor, pipeline and data parallelism must be at least 1");
  if (p.ranks() > 10'000'000) refuse(fmt::format("{} ranks are more than 10 million", p.ranks()));
  const auto positive = [](const char* what, double value) {
    if (!(value > 0)) refuse(fmt::format("{} must be more than 0", what));
  };
  positive("the number of layers", m.layers), positive("the hidden size", m.hidden);
  positive("the sequence", m.sequence), positive("the micro-batch", m.micro_batch);
  positive("the number of micro-batches", m.micro_batches), positive("the bytes of a value", m.value_bytes);
  positive("the bytes of a gradient", m.gradient_bytes), positive("the GPU's FLOP/s", m.flops);
  if (m.parameters < 0) refuse("the number of parameters cannot be negative");
  if (m.layers < p.pipeline)
    refuse(fmt::format("{} layers cannot be spread over {} pipeline stages", m.layers, p.pipeline));
  const double replicas = double{1} * p.data * p.pipeline * m.micro_batches * 2;
  const double count = replicas * (1 + p.tensor) + 2.0 * p.tensor * p.pipeline;
  if (count > kMostCommunications)
    refuse(fmt::format("a step of {} micro-batches on {} ranks has {:.3g} communications, more than {:.3g}",
                       m.micro_batches, p.ranks(), count, kMostCommunications));
}

class Schedule {
 public:
  Schedule(const TrainingModel& model, const Parallel& parallel) : m_(model), p_(parallel) {}

  TrainingStep make() {
    last_.assign(size_t{p_.pipeline} * p_.data, kNothing);
    arrived_[0].assign(p_.pipeline, std::vector<uint32_t>(m_.micro_batches, kNothing));
    arrived_[1] = arrived_[0];
    std::vector<uint32_t> turns(p_.pipeline, 0);
    for (bool moved = true; std::exchange(moved, false);) {
      for (uint32_t stage = 0; stage < p_.pipeline; ++stage) {
        for (uint32_t& turn = turns[stage]; turn < 2 * m_.micro_batches; ++turn, moved = true) {
          const Pass pass = one_forward_one_backward(stage, p_.pipeline, m_.micro_batches, turn);
          if (!can_run(stage, pass)) break;
          run(stage, pass);
        }
      }
    }
    synchronise();
    return std::move(step_);
  }

 private:
  static constexpr uint32_t kNothing = UINT32_MAX;

  uint32_t count() const { return static_cast<uint32_t>(step_.communications.size()); }
  bool needs_input(uint32_t stage, bool forward) const {
    return forward ? stage > 0 : stage + 1 < p_.pipeline;
  }
  bool can_run(uint32_t stage, const Pass& pass) const {
    return !needs_input(stage, pass.forward) || arrived_[pass.forward][stage][pass.micro_batch] != kNothing;
  }

  uint32_t layers_of(uint32_t stage) const {
    return m_.layers / p_.pipeline + (stage < m_.layers % p_.pipeline ? 1 : 0);
  }

  Bytes activations() const {
    const double bytes =
        static_cast<double>(m_.micro_batch) * m_.sequence * static_cast<double>(m_.hidden) * m_.value_bytes;
    if (bytes > 1e15)
      refuse(
          fmt::format("a micro-batch's activations are {:.1e} bytes, more than anybody has: make the "
                      "micro-batch, the sequence or the hidden size smaller",
                      bytes));
    return static_cast<Bytes>(bytes);
  }

  // 2 FLOPs a parameter and token forward, twice that backward.
  Duration compute(uint32_t stage, bool forward) const {
    const double share = static_cast<double>(layers_of(stage)) / m_.layers / p_.tensor;
    const double tokens = static_cast<double>(m_.micro_batch) * m_.sequence;
    const double seconds = (forward ? 2 : 4) * parameters_of(m_) * share * tokens / m_.flops;
    return from_seconds(std::min(seconds, 3600.0));
  }

  // A pass of all replicas. They do the same at the same time, and do not wait for each other.
  void run(uint32_t stage, const Pass& pass) {
    const uint32_t inputs = arrived_[pass.forward][stage][pass.micro_batch];
    const bool sends = pass.forward ? stage + 1 < p_.pipeline : stage > 0;
    const uint32_t to = pass.forward ? stage + 1 : stage - 1;
    const uint32_t first = count();
    for (uint32_t replica = 0; replica < p_.data; ++replica) {
      Communication c{.kind = p_.tensor > 1 ? CommunicationKind::kAllReduce : CommunicationKind::kCompute,
                      .dimension = Dimension::kTensor,
                      .bytes = p_.tensor > 1 ? activations() * 2 * layers_of(stage) : 0,
                      .compute = compute(stage, pass.forward)};
      for (uint32_t shard = 0; shard < p_.tensor; ++shard) {
        c.ranks.push_back(p_.rank(stage, replica, shard));
        if (needs_input(stage, pass.forward)) c.after.push_back(inputs + replica * p_.tensor + shard);
      }
      uint32_t& last = last_[size_t{stage} * p_.data + replica];
      if (last != kNothing) c.after.push_back(last);
      last = count();
      step_.communications.push_back(std::move(c));
    }
    if (!sends) return;
    arrived_[pass.forward][to][pass.micro_batch] = count();
    for (uint32_t replica = 0; replica < p_.data; ++replica) {
      for (uint32_t shard = 0; shard < p_.tensor; ++shard)
        step_.communications.push_back(
            {.kind = CommunicationKind::kSend,
             .dimension = Dimension::kPipeline,
             .bytes = std::max<Bytes>(1, activations() / p_.tensor),
             .ranks = {p_.rank(stage, replica, shard), p_.rank(to, replica, shard)},
             .after = {first + replica}});
    }
  }

  // Gradients are reduced, each data-parallel rank updates its share, and all gather the parameters.
  void synchronise() {
    if (p_.data == 1) return;
    for (uint32_t stage = 0; stage < p_.pipeline; ++stage) {
      const double parameters = parameters_of(m_) * layers_of(stage) / m_.layers / p_.tensor;
      for (uint32_t shard = 0; shard < p_.tensor; ++shard) {
        Communication reduce{.kind = CommunicationKind::kReduceScatter,
                             .dimension = Dimension::kData,
                             .bytes = static_cast<Bytes>(parameters * m_.gradient_bytes)};
        for (uint32_t replica = 0; replica < p_.data; ++replica) {
          reduce.ranks.push_back(p_.rank(stage, replica, shard));
          reduce.after.push_back(last_[size_t{stage} * p_.data + replica]);
        }
        Communication gather{.kind = CommunicationKind::kAllGather,
                             .dimension = Dimension::kData,
                             .bytes = static_cast<Bytes>(parameters * m_.value_bytes),
                             .ranks = reduce.ranks,
                             .after = {count()}};
        step_.communications.push_back(std::move(reduce));
        step_.communications.push_back(std::move(gather));
      }
    }
  }

  const TrainingModel& m_;
  const Parallel& p_;
  TrainingStep step_;
  std::vector<uint32_t> last_;  // of a stage's replica: its last pass
  // By direction (1: forward), stage and micro-batch: the first of the sends that bring a pass its input.
  std::vector<std::vector<uint32_t>> arrived_[2];
};

}  // namespace

double parameters_of(const TrainingModel& m) {
  if (m.parameters > 0) return m.parameters;
  const double l = m.layers, h = m.hidden;
  return 12 * l * h * h * (1 + 13 / (12 * h) + (double{1} * m.vocabulary + m.sequence) / (12 * l * h));
}

std::string_view name_of(CommunicationKind kind) {
  switch (kind) {
    case CommunicationKind::kCompute:
      return "compute";
    case CommunicationKind::kAllReduce:
      return "all_reduce";
    case CommunicationKind::kReduceScatter:
      return "reduce_scatter";
    case CommunicationKind::kAllGather:
      return "all_gather";
    case CommunicationKind::kSend:
      return "send";
  }
  return "?";
}

std::string_view name_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::kTensor:
      return "tensor";
    case Dimension::kPipeline:
      return "pipeline";
    case Dimension::kData:
      return "data";
  }
  return "?";
}

Bytes Communication::bytes_per_rank() const {
  if (kind == CommunicationKind::kCompute || ranks.size() < 2) return 0;
  if (kind == CommunicationKind::kSend) return bytes;
  const double n = static_cast<double>(ranks.size());
  const double rounds = kind == CommunicationKind::kAllReduce ? 2 : 1;
  return static_cast<Bytes>(rounds * (n - 1) / n * static_cast<double>(bytes));
}

Pass one_forward_one_backward(uint32_t stage, uint32_t stages, uint32_t micro_batches, uint32_t turn) {
  const uint32_t warm_up = std::min(stages - stage - 1, micro_batches);
  if (turn < warm_up) return {true, turn};
  const uint32_t pair = (turn - warm_up) / 2;
  if (pair >= micro_batches - warm_up) return {false, turn - micro_batches};
  if ((turn - warm_up) % 2 == 0) return {true, warm_up + pair};
  return {false, pair};
}

TrainingStep step_of(const TrainingModel& model, const Parallel& parallel) {
  check(model, parallel);
  return Schedule(model, parallel).make();
}

}  // namespace megascale
