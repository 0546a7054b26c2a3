#include "plugin/host/rendezvous.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <future>
#include <stdexcept>

#include "plugin/host/rendezvous_core.h"
#include "transport/session/random.h"

namespace megascale::host {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Members wait a little longer than rank 0, so that they hear from it who was missing.
static constexpr auto kGrace = 2s;

void Rendezvous::Core::run() {
  asio::post(io_, [this] { begin(); });
  thread_ = std::thread([this] { io_.run(); });
}

void Rendezvous::Core::stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] { say_goodbye(); });
  const auto until = std::chrono::steady_clock::now() + 300ms;
  for (bool said = false; !said && std::chrono::steady_clock::now() < until;) {
    std::promise<bool> answer;
    asio::post(io_, [&] { answer.set_value(all_said()); });
    said = answer.get_future().get();
    if (!said) std::this_thread::sleep_for(1ms);
  }
  work_.reset();
  io_.stop();
  thread_.join();
}

void Rendezvous::Core::wait_until_joined() {
  std::unique_lock lock(mutex_);
  const auto patience = options_.timeout + (options_.rank == 0 ? 0s : kGrace);
  changed_.wait_for(lock, patience, [&] { return joined_ || refusal_ || failure_; });
  if (joined_) return;
  const std::string what = refusal_ ? *refusal_ : last_words(why_not_joined());
  lock.unlock();
  if (options_.rank == 0) report({-1, what});
  throw std::runtime_error(what);
}

std::vector<std::string> Rendezvous::Core::exchange(uint32_t sequence, const std::string& blob) {
  if (blob.size() > wire::kMaxBlob) {
    throw std::invalid_argument("a rank may give at most 16 MiB to the rendezvous, not " +
                                std::to_string(blob.size()) + " bytes");
  }
  asio::post(io_, [this, sequence, blob] { give(sequence, blob); });
  std::unique_lock lock(mutex_);
  const auto patience = options_.timeout + (options_.rank == 0 ? 0s : kGrace);
  const auto lost = [&](int rank) {  // whoever is gone can give nothing any more
    return options_.rank != 0 || given_[sequence].count(rank) == 0;
  };
  const auto lost_one = [&] {
    return std::any_of(departed_.begin(), departed_.end(), lost) ||
           std::any_of(left_.begin(), left_.end(), lost);
  };
  changed_.wait_for(lock, patience, [&] { return collections_.count(sequence) || failure_ || lost_one(); });
  const auto found = collections_.find(sequence);
  if (found != collections_.end()) {
    std::vector<std::string> blobs = std::move(found->second);
    collections_.erase(found);
    return blobs;
  }
  std::set<int> gone = departed_;
  gone.insert(left_.begin(), left_.end());
  const auto first = std::find_if(gone.begin(), gone.end(), lost);
  const int culprit = first == gone.end() ? -1 : *first;
  const std::string what = last_words(
      culprit < 0 ? who_is_missing(given_, sequence)
                  : "rank " + std::to_string(culprit) + " left the rendezvous at " + options_.address +
                        " before its part was done: look for the error that ended it");
  lock.unlock();
  if (options_.rank == 0) report({culprit, what});
  throw std::runtime_error(what);
}

std::string Rendezvous::Core::last_words(const std::string& otherwise) const {
  return failure_ ? failure_->text : otherwise;
}

void Rendezvous::Core::report(const Failure& failure) {
  failed_elsewhere(failure);
  asio::post(io_, [this, failure] { spread(failure); });
}

void Rendezvous::Core::failed_elsewhere(const Failure& failure) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

std::optional<Rendezvous::Failure> Rendezvous::Core::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<Rendezvous::Failure> Rendezvous::Core::await_failure(std::chrono::milliseconds patience) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return failure_ || !departed_.empty(); });
  return failure_;
}

std::vector<int> Rendezvous::Core::departed() const {
  std::lock_guard lock(mutex_);
  return {departed_.begin(), departed_.end()};
}

void Rendezvous::Core::joined() {
  std::lock_guard lock(mutex_);
  joined_ = true;
  changed_.notify_all();
}

void Rendezvous::Core::refused(const std::string& sentence) {
  std::lock_guard lock(mutex_);
  if (!refusal_) refusal_ = sentence;
  changed_.notify_all();
}

void Rendezvous::Core::has_departed(int rank) {
  std::lock_guard lock(mutex_);
  departed_.insert(rank);
  changed_.notify_all();
}

void Rendezvous::Core::has_left(int rank) {
  std::lock_guard lock(mutex_);
  left_.insert(rank);
  changed_.notify_all();
}

void Rendezvous::Core::collected(uint32_t sequence, std::vector<std::string> blobs) {
  std::lock_guard lock(mutex_);
  collections_[sequence] = std::move(blobs);
  changed_.notify_all();
}

std::string nonce() {
  std::string bytes(wire::kNonceSize, '\0');
  const auto result = random_bytes({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  if (!result)
    throw std::runtime_error("the kernel gives no random bytes, so no rendezvous can be authenticated");
  return bytes;
}

std::pair<std::string, std::string> split_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  const auto wrong = [&](const char* why) {
    return std::runtime_error(
        "`" + address + "' is no rendezvous address: " + why +
        ". Write host:port or [IPv6 address]:port, e.g. MEGASCALE_RENDEZVOUS=10.0.0.1:29400");
  };
  if (colon == std::string::npos) throw wrong("the port is missing");
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    throw wrong("an IPv6 address needs brackets");
  }
  if (host.empty()) throw wrong("the host is missing");
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number < 1 || number > 65535) {
    throw wrong("the port must be 1 to 65535");
  }
  return {host, port};
}

Rendezvous::Rendezvous(const RendezvousOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    throw std::invalid_argument("rank " + std::to_string(options.rank) + " of " +
                                std::to_string(options.ranks) + " makes no sense: ranks count from 0");
  }
  core_ = options.rank == 0 ? make_root(options) : make_member(options);
  try {
    core_->run();
    core_->wait_until_joined();
  } catch (...) {
    core_->stop();
    throw;
  }
}

Rendezvous::~Rendezvous() { core_->stop(); }

std::vector<std::string> Rendezvous::all_gather(const std::string& blob) {
  return core_->exchange(sequence_++, blob);
}
void Rendezvous::report_failure(const Failure& failure) { core_->report(failure); }
bool Rendezvous::failed() const { return core_->failed(); }
std::optional<Rendezvous::Failure> Rendezvous::failure() const { return core_->failure(); }
std::optional<Rendezvous::Failure> Rendezvous::await_failure(std::chrono::milliseconds patience) const {
  return core_->await_failure(patience);
}
std::vector<int> Rendezvous::departed() const { return core_->departed(); }

}  // namespace megascale::host
