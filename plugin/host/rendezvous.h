// Where the ranks of a communicator meet before they have a network: rank 0 listens, the others come,
// everyone gives a small blob and gets everyone's. Afterwards the connections stay, quietly, so that a rank
// that fails can say so to all at once; losing them is no failure by itself.
//
// Errors are std::runtime_error with a full sentence that names who is missing or what was refused.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace megascale::host {

struct RendezvousOptions {
  int rank = 0;
  int ranks = 1;
  std::string address;  // host:port or [v6]:port where rank 0 listens; not needed for one rank
  std::string secret;   // the job's; all ranks have the same, or none has one
  std::chrono::milliseconds timeout{120'000};  // for each exchange
};

class Rendezvous {
 public:
  explicit Rendezvous(const RendezvousOptions&);  // returns when all have come
  ~Rendezvous();                                  // says goodbye
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Everyone's blob, by rank. Every rank calls it equally often. A blob has at most 16 MiB.
  std::vector<std::string> all_gather(const std::string& blob);

  struct Failure {
    int culprit = -1;  // -1: unknown
    std::string text;
  };
  // Tells everyone; the first report stays.
  void report_failure(const Failure&);
  // What some rank reported (this one too); `failed` is cheap enough for a polling loop.
  bool failed() const;
  std::optional<Failure> failure() const;
  // The same, waiting a moment for a report that may be on its way.
  std::optional<Failure> await_failure(std::chrono::milliseconds) const;
  // Ranks whose connection ended without a goodbye: their process is probably gone.
  std::vector<int> departed() const;

  class Core;  // what rank 0 and the others have in common

 private:
  std::unique_ptr<Core> core_;
  uint32_t sequence_ = 0;
};

// "host:port" or "[v6]:port" in its two parts; throws std::runtime_error that quotes the text.
std::pair<std::string, std::string> split_address(const std::string& address);

}  // namespace megascale::host
