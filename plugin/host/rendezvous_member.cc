// The side of all ranks but 0: it dials until rank 0 answers, and proves that it belongs to the job.
#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>

#include "plugin/host/rendezvous_core.h"

namespace megascale::host {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kFirstPause = 20ms;
constexpr auto kLongestPause = 500ms;
constexpr auto kDialTimeout = 3s;
constexpr auto kGreeting = 10s;

class Member final : public Rendezvous::Core {
 public:
  explicit Member(const RendezvousOptions& options)
      : Core(options), resolver_(io_), timer_(io_), nonce_(nonce()) {
    std::tie(host_, port_) = split_address(options.address);
  }

 private:
  void begin() override { dial(); }

  void dial() {
    resolver_.async_resolve(host_, port_,
                            [this](error_code error, const Tcp::resolver::results_type& endpoints) {
                              if (error == asio::error::operation_aborted) return;
                              if (error) return try_again("its name is unknown: " + error.message());
                              connect(endpoints);
                            });
  }

  void connect(const Tcp::resolver::results_type& endpoints) {
    auto socket = std::make_shared<Tcp::socket>(io_);
    timer_.expires_after(kDialTimeout);
    timer_.async_wait([socket](error_code error) {
      error_code ignored;
      if (!error) socket->close(ignored);
    });
    asio::async_connect(*socket, endpoints, [this, socket](error_code error, const Tcp::endpoint&) {
      timer_.cancel();
      if (stopping_) return;
      if (error) return try_again(socket->is_open() ? error.message() : "no answer");
      introduce(std::move(*socket));
    });
  }

  void try_again(const std::string& reason) {
    {
      std::lock_guard lock(mutex_);
      trouble_ = reason;
    }
    if (stopping_) return;
    timer_.expires_after(pause_);
    pause_ = std::min<std::chrono::milliseconds>(pause_ * 3 / 2, kLongestPause);
    timer_.async_wait([this](error_code error) {
      if (!error) dial();
    });
  }

  void introduce(Tcp::socket connected) {
    socket_ = std::make_shared<FramedSocket>(std::move(connected));
    socket_->set_deadline(kGreeting, "it does not greet");
    socket_->start([this](const wire::Header& header, std::string& body) { hear(header, body); },
                   [this](const std::string& reason) { ended(reason); });
  }

  void hear(const wire::Header& header, std::string& body) {
    if (header.kind == wire::Kind::refused) return give_up(body);
    if (!welcome_) return greet(header, body);
    std::string_view text = body;
    switch (header.kind) {
      case wire::Kind::collection:
        if (auto blobs = wire::unpack(body, static_cast<size_t>(options_.ranks))) {
          collected(header.sequence, std::move(*blobs));
        }
        return;
      case wire::Kind::failure:
        if (const auto culprit = wire::take_u32(text)) {
          const bool known = *culprit < static_cast<uint32_t>(options_.ranks);
          failed_elsewhere({known ? static_cast<int>(*culprit) : -1, std::string(text)});
        }
        return;
      case wire::Kind::departed:
        if (const auto rank = wire::take_u32(text); rank && *rank < static_cast<uint32_t>(options_.ranks)) {
          has_departed(static_cast<int>(*rank));
        }
        return;
      case wire::Kind::goodbye:
        goodbye_ = true;
        return has_left(0);
      default:
        return;
    }
  }

  void greet(const wire::Header& header, const std::string& body) {
    const auto ranks = static_cast<uint32_t>(options_.ranks);
    const auto rank = static_cast<uint32_t>(options_.rank);
    if (header.kind == wire::Kind::challenge && body.size() == wire::kNonceSize && root_nonce_.empty()) {
      root_nonce_ = body;
      const Digest proof = wire::prove(wire::Proof::hello, options_.secret, root_nonce_, nonce_, rank, ranks);
      std::string hello;
      wire::put_u32(hello, ranks);
      hello += nonce_;
      hello.append(reinterpret_cast<const char*>(proof.data()), proof.size());
      return socket_->send(wire::frame(wire::Kind::hello, rank, 0, hello));
    }
    if (header.kind != wire::Kind::welcome || root_nonce_.empty()) return;
    const Digest proof = wire::prove(wire::Proof::welcome, options_.secret, root_nonce_, nonce_, rank, ranks);
    if (!equal_in_constant_time(proof, bytes_of(body))) {
      return give_up("whoever answers at " + options_.address +
                     " does not know the job's secret; it is not rank 0");
    }
    welcome_ = true;
    socket_->forget_deadline();
    socket_->allow_bodies(wire::kMaxCollection);
    joined();
  }

  void give_up(const std::string& sentence) {
    stopping_ = true;  // another attempt would end in the same way
    refused(sentence);
  }

  void ended(const std::string& reason) {
    if (welcome_) {
      if (!goodbye_) has_departed(0);
      return;
    }
    root_nonce_.clear();
    socket_.reset();
    try_again(reason);  // perhaps the port's former owner
  }

  void give(uint32_t sequence, const std::string& blob) override {
    socket_->send(
        wire::frame(wire::Kind::contribution, static_cast<uint32_t>(options_.rank), sequence, blob));
  }

  void spread(const Rendezvous::Failure& failure) override {
    if (!welcome_) return;
    std::string body;
    wire::put_u32(body, failure.culprit < 0 ? wire::kNobody : static_cast<uint32_t>(failure.culprit));
    body += failure.text;
    socket_->send(wire::frame(wire::Kind::failure, static_cast<uint32_t>(options_.rank), 0, body));
  }

  void say_goodbye() override {
    stopping_ = true;
    resolver_.cancel();
    timer_.cancel();
    if (!socket_) return;
    if (welcome_)
      socket_->send(wire::frame(wire::Kind::goodbye, static_cast<uint32_t>(options_.rank), 0, {}));
    socket_->close_when_sent();
  }
  bool all_said() const override { return !socket_ || socket_->idle(); }

  std::string who_is_missing(const std::map<uint32_t, std::map<int, std::string>>&, uint32_t) const override {
    return "rank 0 at " + options_.address + " went away or is silent, so rank " +
           std::to_string(options_.rank) + " cannot meet the others: look for the error that ended rank 0";
  }

  std::string why_not_joined() const override {
    return "rank " + std::to_string(options_.rank) + " could not meet rank 0 at " + options_.address +
           " within " + std::to_string(options_.timeout.count() / 1000) +
           " s: " + (trouble_.empty() ? "no answer" : trouble_) +
           ". Is rank 0 running, and is MEGASCALE_RENDEZVOUS the same for all ranks?";
  }

  std::string host_, port_;
  Tcp::resolver resolver_;
  asio::steady_timer timer_;
  std::chrono::milliseconds pause_ = kFirstPause;
  const std::string nonce_;
  std::string root_nonce_;
  std::shared_ptr<FramedSocket> socket_;
  bool welcome_ = false;
  bool goodbye_ = false;
  bool stopping_ = false;
  std::string trouble_;  // with mutex_
};

}  // namespace

std::unique_ptr<Rendezvous::Core> make_member(const RendezvousOptions& options) {
  return std::make_unique<Member>(options);
}

}  // namespace megascale::host
