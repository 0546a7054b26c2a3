// The communications of one training step: which ranks, how many bytes, after which others. What is counted
// here is what Megatron-LM's 3-D parallelism sends (Narayanan et al., "Efficient Large-Scale Language Model
// Training on GPU Clusters Using Megatron-LM", SC 2021, section 3), with the optimizer's state sharded over
// the data-parallel ranks (ZeRO stage 1: Rajbhandari et al., SC 2020, section 7).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cc/units.h"

namespace megascale {

// What this folder throws where numbers do not fit together: std::invalid_argument.
[[noreturn]] void refuse(const std::string& why);

// Ranks count tensor-parallel ones fastest, then data-parallel ones, then pipeline stages.
struct Parallel {
  static constexpr uint32_t kMostTensor = 65'536, kMostPipeline = 65'536, kMostData = 10'000'000;

  uint32_t tensor = 1, pipeline = 1, data = 1;

  uint64_t ranks() const { return uint64_t{tensor} * pipeline * data; }
  uint32_t rank(uint32_t stage, uint32_t replica, uint32_t shard) const {
    return (stage * data + replica) * tensor + shard;
  }
};

// A GPT and how it is trained; the defaults are the 175B model of the MegaScale paper.
struct TrainingModel {
  uint32_t layers = 96, hidden = 12'288, sequence = 2'048, vocabulary = 51'200;
  double parameters = 0;        // 0: what follows from the above (SC 2021, equation 2)
  uint32_t micro_batch = 1;     // sequences
  uint32_t micro_batches = 16;  // of a replica, in a step
  uint32_t value_bytes = 2;     // of an activation and of a parameter as it is gathered (bf16)
  uint32_t gradient_bytes = 4;  // of a gradient as it is reduced (fp32)
  double flops = 150e12;        // a GPU's, sustained: for the computing time between communications
};

double parameters_of(const TrainingModel&);

enum class CommunicationKind : uint8_t {
  kCompute,        // none: only its time (without tensor parallelism)
  kAllReduce,      // ring: each rank sends 2 (n-1)/n x bytes to the next
  kReduceScatter,  // ring: (n-1)/n x bytes
  kAllGather,      // ring: (n-1)/n x bytes
  kSend,           // from ranks[0] to ranks[1]
};
enum class Dimension : uint8_t { kTensor, kPipeline, kData };

std::string_view name_of(CommunicationKind);
std::string_view name_of(Dimension);

struct Communication {
  CommunicationKind kind;
  Dimension dimension;
  Bytes bytes = 0;              // of the whole buffer: before a reduce-scatter, after an all-gather
  Duration compute{0};          // passes after the last of `after` and before the first byte
  std::vector<uint32_t> ranks;  // in the order of the ring
  std::vector<uint32_t> after;  // indices of what must be over first, all smaller than its own

  // That each rank of a ring sends to the next, or ranks[0] to ranks[1].
  Bytes bytes_per_rank() const;
};

struct TrainingStep {
  std::vector<Communication> communications;
};

// What a pipeline stage does at a time: the forward or the backward pass of a micro-batch.
struct Pass {
  bool forward;
  uint32_t micro_batch;
};
// The schedule of one forward, one backward (SC 2021, section 2.2): number `turn` of a stage's passes, of
// which there are twice as many as micro-batches. Forwards fill the pipeline, then it alternates, then it
// drains.
Pass one_forward_one_backward(uint32_t stage, uint32_t stages, uint32_t micro_batches, uint32_t turn);

// The 1F1B schedule (SC 2021, section 2.2), each stage computing and all-reducing over its tensor-parallel
// ranks, sending activations forward and their gradients backward (a tensor-parallel rank sends its share to
// the one of the same shard: section 4.1), and at the end a reduce-scatter of gradients and an all-gather of
// parameters over the data-parallel ranks. The all-reduces of a micro-batch's layers are one communication.
// Left out: the sum of the gradients of shared embeddings between the first and the last stage, and what is
// sent to agree on the norm of gradients.
// Throws std::invalid_argument for numbers that do not fit together, or more than kMostCommunications.
inline constexpr double kMostCommunications = 20e6;
TrainingStep step_of(const TrainingModel&, const Parallel&);

}  // namespace megascale
