// Collectives of host memory over any NCCL network plugin, asynchronous: a call begins an operation and gives
// a handle; operations of a communicator begin in the order of the calls, which must be the same at every
// rank.
//
// Buffers belong to an operation until it is done. Everything may be called from any thread. The first
// network error aborts the communicator: every outstanding handle and every later call throws NetworkError,
// which names the rank. An all-reduce gives the same bits at every rank and at every run with as many ranks,
// rings and the same chunk.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "plugin/host/data_type.h"

namespace megascale::host {

class Engine;
struct Operation;

class NetworkError : public std::runtime_error {
 public:
  NetworkError(int rank, const std::string& what) : std::runtime_error(what), rank_(rank) {}
  int rank() const { return rank_; }  // that failed; -1 when unknown

 private:
  int rank_;
};

struct CommunicatorOptions {
  int rank = 0;
  int ranks = 1;
  std::string rendezvous;  // host:port; rank 0 listens there
  std::string plugin;      // path or name as for NCCL_NET_PLUGIN; empty: this project's own
  int device = -1;         // -1: local_rank modulo the number of devices
  int local_rank = 0;
  std::chrono::seconds timeout{120};  // to meet and to connect
  size_t chunk = 0;                   // bytes of a message on a ring; 0: default
  int rings = 1;                      // connections that a collective uses at once, on successive devices
  bool progress_thread = true;        // operations go on while nobody waits for them
  std::chrono::seconds stall_timeout{1800};  // a wait in which nothing moves anywhere ends then
};

// Options from the launch contract: MEGASCALE_RANK, MEGASCALE_RANKS, MEGASCALE_LOCAL_RANK,
// MEGASCALE_RENDEZVOUS. One rank when none is set; throws std::runtime_error when some are missing or wrong.
CommunicatorOptions options_from_environment();

// One asynchronous operation. Copies are the same operation.
class Work {
 public:
  Work() = default;  // done
  bool done();       // pushes a little
  void wait();       // pushes until it is done

 private:
  friend class Communicator;
  Work(std::shared_ptr<Engine> engine, std::shared_ptr<Operation> operation)
      : engine_(std::move(engine)), operation_(std::move(operation)) {}
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Operation> operation_;
};

class Communicator {
 public:
  static std::unique_ptr<Communicator> create(const CommunicatorOptions&);  // throws std::runtime_error
  ~Communicator();  // never waits for a peer; what is outstanding fails
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }
  const std::string& network() const { return network_; }  // the plugin's name
  size_t chunk() const { return options_.chunk; }

  // Matched in order for each pair of ranks, together with all_to_all; sizes must agree. A rank may send to
  // itself.
  Work send(const void* data, size_t bytes, int peer);
  Work recv(void* data, size_t bytes, int peer);
  Work broadcast(void* data, size_t count, DataType, int root);
  Work all_gather(const void* mine, void* all, size_t count_per_rank,
                  DataType);  // mine may lie in its place in all
  Work reduce_scatter(const void* all, void* mine, size_t count_per_rank, DataType,
                      ReduceOp);                                                 // as may mine here
  Work all_reduce(const void* in, void* out, size_t count, DataType, ReduceOp);  // in == out allowed
  Work all_to_all(const void* in, void* out, size_t count_per_pair, DataType);
  Work barrier();

  // Buffers that will be used again and again: registered once instead of once an operation. Memory must stay
  // mapped until it is dropped, which must not happen with operations on it outstanding.
  void keep_registered(const void* data, size_t bytes);
  void drop_registered(const void* data);

  // Ends everything here and tells all ranks why.
  void abort(const std::string& why);

 private:
  Communicator(const CommunicatorOptions&, std::shared_ptr<Engine>);
  class Builder;

  CommunicatorOptions options_;
  std::shared_ptr<Engine> engine_;
  std::string network_;
};

}  // namespace megascale::host
