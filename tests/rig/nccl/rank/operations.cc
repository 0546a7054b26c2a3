#include "tests/rig/nccl/rank/operations.h"

#include <algorithm>
#include <array>
#include <utility>

namespace megascale::rig {

namespace {

constexpr std::size_t kGuard = 256;  // watched bytes behind a buffer
constexpr int kPoison = 0xA5;

constexpr std::array<std::pair<std::string_view, Operation>, 7> kNames{
    {{"all_reduce", Operation::AllReduce},
     {"all_gather", Operation::AllGather},
     {"reduce_scatter", Operation::ReduceScatter},
     {"broadcast", Operation::Broadcast},
     {"reduce", Operation::Reduce},
     {"send_recv", Operation::SendRecv},
     {"all_to_all", Operation::AllToAll}}};

bool reduces(Operation o) {
  return o == Operation::AllReduce || o == Operation::ReduceScatter || o == Operation::Reduce;
}

}  // namespace

std::optional<Operation> operation_named(std::string_view name) {
  for (const auto& [known, operation] : kNames)
    if (known == name) return operation;
  return std::nullopt;
}

const char* name_of(Operation operation) { return kNames[static_cast<std::size_t>(operation)].first.data(); }

Work::Work(Operation operation, const Group& group, Pattern pattern, std::size_t bytes, int root)
    : operation_(operation), pattern_(pattern), rank_(group.rank), size_(group.size), root_(root) {
  const auto n = static_cast<std::size_t>(size_);
  count_ = bytes / size_of(pattern.type);
  bytes_ = count_ * size_of(pattern.type);
  in_bytes_ = operation == Operation::ReduceScatter || operation == Operation::AllToAll ? n * bytes_ : bytes_;
  out_bytes_ = operation == Operation::AllGather || operation == Operation::AllToAll ? n * bytes_ : bytes_;
  in_place_ = pattern.round % 3 == 0 && operation != Operation::SendRecv && operation != Operation::AllToAll;
  if (!in_place_) in_ = std::make_unique<DeviceBuffer>(in_bytes_ + kGuard);
  whole_out_bytes_ = in_place_ ? std::max(in_bytes_, out_bytes_) : out_bytes_;
  out_ = std::make_unique<DeviceBuffer>(whole_out_bytes_ + kGuard);
}

std::size_t Work::offset_in() const {
  return in_place_ && operation_ == Operation::AllGather ? static_cast<std::size_t>(rank_) * bytes_ : 0;
}
std::size_t Work::offset_out() const {
  return in_place_ && operation_ == Operation::ReduceScatter ? static_cast<std::size_t>(rank_) * bytes_ : 0;
}

void Work::fill_buffers() {
  RIG_CHECK(cudaMemset(out_->data(), kPoison, whole_out_bytes_ + kGuard));
  std::vector<std::byte> contribution(in_bytes_);
  fill(pattern_, rank_, 0, contribution);
  std::byte* to = in_place_ ? out_->data() + offset_in() : in_->data();
  RIG_CHECK(cudaMemcpy(to, contribution.data(), in_bytes_, cudaMemcpyHostToDevice));
}

void Work::post_reduction(const Group& group, ncclRedOp_t reduction) {
  const void* in = in_place_ ? out_->data() : in_->data();
  void* out = out_->data() + offset_out();
  if (operation_ == Operation::AllReduce)
    RIG_CHECK(ncclAllReduce(in, out, count_, pattern_.type, reduction, group.comm, group.stream));
  else if (operation_ == Operation::ReduceScatter)
    RIG_CHECK(ncclReduceScatter(in, out, count_, pattern_.type, reduction, group.comm, group.stream));
  else RIG_CHECK(ncclReduce(in, out, count_, pattern_.type, reduction, root_, group.comm, group.stream));
}

void Work::post_scaled_sum(const Group& group) {
  std::array<std::byte, 8> factor{};
  put_integer(pattern_.type, kFactor, factor);
  ncclRedOp_t reduction;
  RIG_CHECK(ncclRedOpCreatePreMulSum(&reduction, factor.data(), pattern_.type, ncclScalarHostImmediate,
                                     group.comm));
  post_reduction(group, reduction);
  RIG_CHECK(ncclRedOpDestroy(reduction, group.comm));
}

void Work::post_copy(const Group& group) {
  const std::byte* in = in_place_ ? out_->data() + offset_in() : in_->data();
  std::byte* out = out_->data();
  const ncclDataType_t type = pattern_.type;
  if (operation_ == Operation::AllGather) {
    RIG_CHECK(ncclAllGather(in, out, count_, type, group.comm, group.stream));
  } else if (operation_ == Operation::Broadcast) {
    RIG_CHECK(ncclBroadcast(in, out, count_, type, root_, group.comm, group.stream));
  } else if (operation_ == Operation::SendRecv) {
    RIG_CHECK(ncclGroupStart());
    RIG_CHECK(ncclSend(in, count_, type, (rank_ + 1) % size_, group.comm, group.stream));
    RIG_CHECK(ncclRecv(out, count_, type, (rank_ + size_ - 1) % size_, group.comm, group.stream));
    RIG_CHECK(ncclGroupEnd());
  } else {
    RIG_CHECK(ncclGroupStart());
    for (int r = 0; r < size_; r++) {
      const std::size_t at = static_cast<std::size_t>(r) * bytes_;
      RIG_CHECK(ncclSend(in + at, count_, type, r, group.comm, group.stream));
      RIG_CHECK(ncclRecv(out + at, count_, type, r, group.comm, group.stream));
    }
    RIG_CHECK(ncclGroupEnd());
  }
}

void Work::post(const Group& group) {
  if (!reduces(operation_)) return post_copy(group);
  if (pattern_.reduction == kScaledSum) return post_scaled_sum(group);
  post_reduction(group, static_cast<ncclRedOp_t>(pattern_.reduction));
}

Mismatch Work::check_result(std::span<const std::byte> out) const {
  const auto part = [&](int r) { return out.subspan(static_cast<std::size_t>(r) * bytes_, bytes_); };
  Mismatch mismatch;
  const auto add = [&](const Mismatch& m) {
    if (mismatch.wrong == 0) mismatch.first = m.first;
    mismatch.wrong += m.wrong;
  };
  switch (operation_) {
    case Operation::AllReduce:
      return compare_reduced(pattern_, 0, out);
    case Operation::ReduceScatter:
      return compare_reduced(pattern_, static_cast<std::size_t>(rank_) * count_, out);
    case Operation::Reduce:
      return rank_ == root_ ? compare_reduced(pattern_, 0, out) : Mismatch{};
    case Operation::Broadcast:
      return compare_copy(pattern_, root_, 0, out);
    case Operation::SendRecv:
      return compare_copy(pattern_, (rank_ + size_ - 1) % size_, 0, out);
    case Operation::AllGather:
      for (int r = 0; r < size_; r++) add(compare_copy(pattern_, r, 0, part(r)));
      return mismatch;
    case Operation::AllToAll:
      for (int r = 0; r < size_; r++)
        add(compare_copy(pattern_, r, static_cast<std::size_t>(rank_) * count_, part(r)));
      return mismatch;
  }
  return mismatch;
}

Mismatch Work::check_buffers() const {
  std::vector<std::byte> all(whole_out_bytes_ + kGuard);
  RIG_CHECK(cudaMemcpy(all.data(), out_->data(), all.size(), cudaMemcpyDeviceToHost));
  Mismatch mismatch = check_result(std::span(all).subspan(offset_out(), out_bytes_));
  for (const std::byte b : std::span(all).last(kGuard))
    if (b != std::byte{kPoison} && mismatch.wrong++ == 0)
      mismatch.first = "bytes behind the buffer's end were written";
  return mismatch;
}

std::string Work::description() const {
  std::string text =
      std::string(name_of(operation_)) + " of " + std::to_string(count_) + " " + name_of(pattern_.type);
  if (reduces(operation_)) text += std::string(", ") + name_of_reduction(pattern_.reduction);
  if (operation_ == Operation::Broadcast || operation_ == Operation::Reduce)
    text += ", root " + std::to_string(root_);
  return text + (in_place_ ? ", in place" : "") + ", round " + std::to_string(pattern_.round);
}

Pattern pattern_of_round(unsigned round, int ranks) {
  const unsigned combination =
      round * 7 % (kTypes * kReductions);  // 7 and 60 have no common factor: all come up
  return {.type = static_cast<ncclDataType_t>(combination % kTypes),
          .reduction = static_cast<int>(combination / kTypes),
          .ranks = ranks,
          .round = round};
}

static void require_right(const Work& work, const Mismatch& mismatch) {
  if (mismatch.wrong == 0) return;
  throw Failure("WRONG: " + work.description() + ": " + std::to_string(mismatch.wrong) +
                " elements, the first: " + mismatch.first);
}

void run_operations(Job& job, const Group& group, Operation operation, std::size_t bytes, int rounds) {
  std::chrono::duration<double> spent{};
  for (int round = 0; round < rounds; round++) {
    Work work(operation, group, pattern_of_round(static_cast<unsigned>(round), group.size), bytes,
              round % group.size);
    work.fill_buffers();
    const auto start = std::chrono::steady_clock::now();
    work.post(group);
    wait_for_stream(group, kOperationDeadline);
    spent += std::chrono::steady_clock::now() - start;
    require_right(work, work.check_buffers());
  }
  say(job, "%s of %zu bytes x %d: right, %.1f MB/s", name_of(operation), bytes, rounds,
      static_cast<double>(bytes) * rounds / spent.count() / 1e6);
}

void run_groups(Job& job, const Group& group, std::size_t bytes, int rounds) {
  constexpr unsigned kAllReduces = kTypes * kReductions;
  for (int round = 0; round < rounds; round++) {
    std::vector<std::unique_ptr<Work>> works;
    const auto add = [&](Operation operation, unsigned k) {
      const Pattern pattern = pattern_of_round(static_cast<unsigned>(round) * 1000 + k, group.size);
      works.push_back(std::make_unique<Work>(operation, group, pattern, bytes * (k * 37 % 61 + 1) / 61,
                                             static_cast<int>(k) % group.size));
      works.back()->fill_buffers();
    };
    for (unsigned k = 0; k < kAllReduces; k++) add(Operation::AllReduce, k);
    for (unsigned k = 0; k < kNames.size(); k++) add(kNames[k].second, kAllReduces + k);
    RIG_CHECK(ncclGroupStart());
    for (const auto& work : works) work->post(group);
    RIG_CHECK(ncclGroupEnd());
    wait_for_stream(group, kOperationDeadline);
    for (const auto& work : works) require_right(*work, work->check_buffers());
  }
  say(job, "groups of %u operations up to %zu bytes x %d: right",
      kAllReduces + static_cast<unsigned>(kNames.size()), bytes, rounds);
}

}  // namespace megascale::rig
