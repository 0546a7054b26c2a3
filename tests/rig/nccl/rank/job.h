// One rank's place in a job of NCCL ranks: where its communicators come from and how it waits for them.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>

namespace megascale::rig {

struct Job {
  int rank = 0, ranks = 1, device = 0;
  std::string id_file;  // the n-th communicator's id travels in ID_FILE.n
  int communicators = 0;
};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// NCCL reported an asynchronous error: the communicator is of no more use and wants to be aborted.
struct CommunicatorBroke : Failure {
  using Failure::Failure;
};

void check(ncclResult_t result, const char* what);
void check(cudaError_t result, const char* what);
#define RIG_CHECK(call) ::megascale::rig::check((call), #call)

// A communicator and the stream its work goes to.
struct Group {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0, size = 1;
};

// The job's next communicator, of all ranks; collective.
Group new_group(Job& job);
// A group over a communicator that exists.
Group group_of(ncclComm_t comm);
void destroy(Group& group);
// Aborts and waits until the stream has stopped; returns how long that took.
std::chrono::duration<double> abort_group(Group& group);
// Waits for the stream as a watchdog does: throws CommunicatorBroke at NCCL's asynchronous error, Failure at
// the deadline.
void wait_for_stream(const Group& group, std::chrono::seconds deadline);

// Memory of the device. When an exception unwinds it, it is left alone: an operation may still be at work on
// it.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
};

// One line, whole, to standard output: "rank R: ...".
__attribute__((format(printf, 2, 3))) void say(const Job& job, const char* format, ...);

}  // namespace megascale::rig
