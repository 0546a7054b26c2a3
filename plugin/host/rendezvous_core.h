// What both sides of the rendezvous share: a thread that sleeps in the kernel and does all the talking, and
// the state that callers wait for.
#pragma once
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "plugin/host/framed_socket.h"
#include "plugin/host/rendezvous.h"

namespace megascale::host {

class Rendezvous::Core {
 public:
  explicit Core(const RendezvousOptions& options) : options_(options), work_(io_.get_executor()) {}
  virtual ~Core() = default;

  void run();   // starts the thread, and the talking
  void stop();  // says goodbye, within a moment, and ends the thread; before destruction

  // All of these wait until options.timeout and throw.
  void wait_until_joined();
  std::vector<std::string> exchange(uint32_t sequence, const std::string& blob);

  void report(const Failure&);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<Failure> failure() const;
  std::optional<Failure> await_failure(std::chrono::milliseconds) const;
  std::vector<int> departed() const;

 protected:
  // On the thread.
  virtual void begin() = 0;
  virtual void give(uint32_t sequence, const std::string& blob) = 0;
  virtual void spread(const Failure&) = 0;
  virtual void say_goodbye() = 0;
  virtual bool all_said() const = 0;
  // With mutex_ held.
  virtual std::string who_is_missing(const std::map<uint32_t, std::map<int, std::string>>& given,
                                     uint32_t sequence) const = 0;
  virtual std::string why_not_joined() const = 0;

  void joined();
  void refused(const std::string& sentence);  // no use in trying further
  void failed_elsewhere(const Failure&);
  void has_departed(int rank);
  void has_left(int rank);  // with a goodbye
  void collected(uint32_t sequence, std::vector<std::string> blobs);

  const RendezvousOptions options_;
  boost::asio::io_context io_;
  mutable std::mutex mutex_;  // for all below
  mutable std::condition_variable changed_;
  std::map<uint32_t, std::map<int, std::string>>
      given_;  // at rank 0: what came for exchanges that are incomplete

 private:
  std::string last_words(const std::string& otherwise) const;

  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
  bool joined_ = false;
  std::optional<std::string> refusal_;
  std::map<uint32_t, std::vector<std::string>> collections_;
  std::optional<Failure> failure_;
  std::set<int> departed_;
  std::set<int> left_;
  std::atomic<bool> failed_ = false;
};

std::unique_ptr<Rendezvous::Core> make_root(const RendezvousOptions&);
std::unique_ptr<Rendezvous::Core> make_member(const RendezvousOptions&);

std::string nonce();  // throws std::runtime_error when the kernel gives no random bytes

}  // namespace megascale::host
