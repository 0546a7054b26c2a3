#include "tests/rig/nccl/rank/job.h"

#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <thread>

namespace megascale::rig {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw Failure(std::string(what) + ": " + ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) +
                ")");
}

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw Failure(std::string(what) + ": " + cudaGetErrorString(result));
}

static void write_id(const std::string& path, const ncclUniqueId& id) {
  const std::string unfinished = path + ".unfinished";
  std::ofstream file(unfinished, std::ios::binary);
  file.write(id.internal, sizeof id.internal);
  file.close();
  if (!file || std::rename(unfinished.c_str(), path.c_str()) != 0)
    throw Failure("cannot write the communicator's id to " + path);
}

static ncclUniqueId read_id(const std::string& path) {
  for (const auto deadline = Clock::now() + 120s; Clock::now() < deadline; std::this_thread::sleep_for(2ms)) {
    ncclUniqueId id;
    std::ifstream file(path, std::ios::binary);
    if (file && file.read(id.internal, sizeof id.internal)) return id;
  }
  throw Failure("no communicator's id appeared in " + path + " within 120 s: did rank 0 start?");
}

Group group_of(ncclComm_t comm) {
  Group group{.comm = comm};
  RIG_CHECK(ncclCommUserRank(comm, &group.rank));
  RIG_CHECK(ncclCommCount(comm, &group.size));
  RIG_CHECK(cudaStreamCreate(&group.stream));
  return group;
}

Group new_group(Job& job) {
  const std::string path = job.id_file + "." + std::to_string(job.communicators++);
  ncclUniqueId id;
  if (job.rank == 0) {
    RIG_CHECK(ncclGetUniqueId(&id));
    write_id(path, id);
  } else {
    id = read_id(path);
  }
  ncclComm_t comm = nullptr;
  RIG_CHECK(ncclCommInitRank(&comm, job.ranks, id, job.rank));
  return group_of(comm);
}

void destroy(Group& group) {
  RIG_CHECK(ncclCommFinalize(group.comm));
  RIG_CHECK(ncclCommDestroy(group.comm));
  RIG_CHECK(cudaStreamDestroy(group.stream));
  group = {};
}

std::chrono::duration<double> abort_group(Group& group) {
  const auto start = Clock::now();
  RIG_CHECK(ncclCommAbort(group.comm));
  RIG_CHECK(cudaStreamSynchronize(group.stream));
  RIG_CHECK(cudaStreamDestroy(group.stream));
  group = {};
  return Clock::now() - start;
}

void wait_for_stream(const Group& group, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const cudaError_t state = cudaStreamQuery(group.stream);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check(state, "cudaStreamQuery");
    ncclResult_t error = ncclSuccess;
    RIG_CHECK(ncclCommGetAsyncError(group.comm, &error));
    if (error != ncclSuccess && error != ncclInProgress)
      throw CommunicatorBroke(std::string("asynchronous error: ") + ncclGetErrorString(error) + " (" +
                              ncclGetLastError(group.comm) + ")");
    if (Clock::now() > deadline)
      throw Failure("an operation was not done after " + std::to_string(limit.count()) +
                    " s, and NCCL reports no error");
    std::this_thread::sleep_for(200us);
  }
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) {
  void* data = nullptr;
  RIG_CHECK(cudaMalloc(&data, bytes));
  data_ = static_cast<std::byte*>(data);
}
DeviceBuffer::~DeviceBuffer() {
  if (std::uncaught_exceptions() == exceptions_) cudaFree(data_);
}

void say(const Job& job, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  std::printf("rank %d: %s\n", job.rank, text);
  std::fflush(stdout);
}

}  // namespace megascale::rig
