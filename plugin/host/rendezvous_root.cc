// Rank 0's side of the rendezvous: it listens until all have come, then relays.
#include <boost/asio/steady_timer.hpp>
#include <stdexcept>

#include "plugin/host/rendezvous_core.h"

namespace megascale::host {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kIntroduction = 5s;
constexpr size_t kMaxStrangers = 128;  // beside those that are expected

std::string list(const std::set<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t shown = 0;
  for (int rank : ranks) {
    if (shown == 16) return text + " and " + std::to_string(ranks.size() - shown) + " more";
    text += (shown++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

class Root final : public Rendezvous::Core {
 public:
  explicit Root(const RendezvousOptions& options)
      : Core(options), acceptor_(io_), retry_(io_), nonce_(nonce()) {
    if (options.ranks > 1) std::tie(host_, port_) = split_address(options.address);
  }

 private:
  struct Session {
    std::shared_ptr<FramedSocket> socket;
    int rank = -1;
    bool left = false;  // said goodbye
  };
  using SessionPtr = std::shared_ptr<Session>;

  void begin() override {
    if (options_.ranks == 1) return joined();
    if (auto trouble = listen()) {
      {
        std::lock_guard lock(mutex_);
        trouble_ = *trouble;
      }
      retry_.expires_after(100ms);  // a former communicator may still be on its way out
      retry_.async_wait([this](error_code error) {
        if (!error) begin();
      });
      return;
    }
    accept();
  }

  std::optional<std::string> listen() {
    error_code error;
    Tcp::resolver resolver(io_);
    const auto endpoints = resolver.resolve(host_, port_, Tcp::resolver::passive, error);
    if (error) return "the host's name is unknown: " + error.message();
    for (const auto& entry : endpoints) {
      const Tcp::endpoint endpoint = entry.endpoint();
      error_code ignored;
      acceptor_.close(ignored);
      acceptor_.open(endpoint.protocol(), error);
      if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
      if (!error) acceptor_.bind(endpoint, error);
      if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
      if (!error) return std::nullopt;
    }
    return error.message();
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, Tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
      if (!error && strangers_.size() < kMaxStrangers + static_cast<size_t>(options_.ranks)) {
        welcome_stranger(std::move(socket));
      }
      accept();
    });
  }

  void welcome_stranger(Tcp::socket socket) {
    auto session = std::make_shared<Session>();
    session->socket = std::make_shared<FramedSocket>(std::move(socket));
    strangers_.insert(session);
    session->socket->set_deadline(kIntroduction, "it did not introduce itself in time");
    session->socket->start(
        [this, session](const wire::Header& header, std::string& body) { hear(session, header, body); },
        [this, session](const std::string& reason) { ended(session, reason); });
    session->socket->send(wire::frame(wire::Kind::challenge, 0, 0, nonce_));
  }

  void hear(const SessionPtr& session, const wire::Header& header, std::string& body) {
    if (session->rank < 0) return introduce(session, header, body);
    switch (header.kind) {
      case wire::Kind::contribution:
        if (body.size() <= wire::kMaxBlob) take(header.sequence, session->rank, std::move(body));
        return;
      case wire::Kind::failure: {
        std::string_view text = body;
        const auto culprit = wire::take_u32(text);
        if (!culprit) return;
        const Rendezvous::Failure failure{
            *culprit < static_cast<uint32_t>(options_.ranks) ? static_cast<int>(*culprit) : -1,
            std::string(text)};
        failed_elsewhere(failure);
        return spread(failure);
      }
      case wire::Kind::goodbye:
        session->left = true;
        return has_left(session->rank);
      default:
        return;  // nothing else is for rank 0
    }
  }

  void introduce(const SessionPtr& session, const wire::Header& header, const std::string& body) {
    if (const std::string why = objection(header, body); !why.empty()) return turn_away(session, why);
    session->rank = static_cast<int>(header.rank);
    session->socket->forget_deadline();
    session->socket->allow_bodies(wire::kMaxBlob);
    strangers_.erase(session);
    {
      std::lock_guard lock(mutex_);
      present_.insert(session->rank);
    }
    const std::string member_nonce = body.substr(4, wire::kNonceSize);
    const Digest proof = wire::prove(wire::Proof::welcome, options_.secret, nonce_, member_nonce, header.rank,
                                     static_cast<uint32_t>(options_.ranks));
    session->socket->send(
        wire::frame(wire::Kind::welcome, 0, 0, {reinterpret_cast<const char*>(proof.data()), proof.size()}));
    members_[session->rank] = session;
    if (members_.size() + 1 == static_cast<size_t>(options_.ranks)) {
      error_code ignored;
      acceptor_.close(ignored);
      joined();
    }
  }

  std::string objection(const wire::Header& header, const std::string& body) const {
    std::string_view text = body;
    const auto ranks = wire::take_u32(text);
    if (header.kind != wire::Kind::hello || !ranks || text.size() != wire::kNonceSize + sizeof(Digest)) {
      return "this is no introduction";
    }
    const std::string_view member_nonce = text.substr(0, wire::kNonceSize);
    const Digest proof =
        wire::prove(wire::Proof::hello, options_.secret, nonce_, member_nonce, header.rank, *ranks);
    if (!equal_in_constant_time(proof, bytes_of(text.substr(wire::kNonceSize)))) {
      return "the job's secrets differ; give the same MEGASCALE_SECRET or MEGASCALE_SECRET_FILE to every "
             "rank";
    }
    if (*ranks != static_cast<uint32_t>(options_.ranks)) {
      return "rank " + std::to_string(header.rank) + " counts " + std::to_string(*ranks) +
             " ranks, rank 0 counts " + std::to_string(options_.ranks) +
             "; MEGASCALE_RANKS must be the same everywhere";
    }
    if (header.rank == 0 || header.rank >= *ranks) {
      return "there is no free place for a rank " + std::to_string(header.rank) + " among " +
             std::to_string(*ranks);
    }
    if (members_.count(static_cast<int>(header.rank)) != 0) {
      return "rank " + std::to_string(header.rank) +
             " is here already; is MEGASCALE_RANK the same in two processes?";
    }
    return {};
  }

  void turn_away(const SessionPtr& session, const std::string& why) {
    {
      std::lock_guard lock(mutex_);
      ++refusals_;
      last_refusal_ = session->socket->peer() + ": " + why;
    }
    strangers_.erase(session);
    session->socket->send(wire::frame(wire::Kind::refused, 0, 0, "rank 0 refused this rank: " + why));
    session->socket->close_when_sent();
  }

  void ended(const SessionPtr& session, const std::string& reason) {
    strangers_.erase(session);
    if (session->rank < 0) {
      std::lock_guard lock(mutex_);
      ++refusals_;
      last_refusal_ = reason;
      return;
    }
    if (session->left) return;
    has_departed(session->rank);
    std::string body;
    wire::put_u32(body, static_cast<uint32_t>(session->rank));
    send_to_all(wire::frame(wire::Kind::departed, 0, 0, body));
  }

  void take(uint32_t sequence, int rank, std::string blob) {
    std::vector<std::string> complete;
    {
      std::lock_guard lock(mutex_);
      auto& given = given_[sequence];
      given[rank] = std::move(blob);
      if (given.size() < static_cast<size_t>(options_.ranks)) return;
      for (auto& [giver, gift] : given) complete.push_back(std::move(gift));
      given_.erase(sequence);
    }
    send_to_all(wire::frame(wire::Kind::collection, 0, sequence, wire::pack(complete)));
    collected(sequence, std::move(complete));
  }

  void give(uint32_t sequence, const std::string& blob) override { take(sequence, 0, blob); }

  void spread(const Rendezvous::Failure& failure) override {
    std::string body;
    wire::put_u32(body, failure.culprit < 0 ? wire::kNobody : static_cast<uint32_t>(failure.culprit));
    body += failure.text;
    send_to_all(wire::frame(wire::Kind::failure, 0, 0, body));
  }

  void send_to_all(const std::string& frame) {
    for (auto& [rank, session] : members_) session->socket->send(frame);
  }

  void say_goodbye() override {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    for (const auto& session : std::set<SessionPtr>(strangers_)) session->socket->close();
    strangers_.clear();
    send_to_all(wire::frame(wire::Kind::goodbye, 0, 0, {}));
    for (auto& [rank, session] : members_) session->socket->close_when_sent();
  }

  bool all_said() const override {
    for (const auto& [rank, session] : members_) {
      if (!session->socket->idle()) return false;
    }
    return true;
  }

  std::string who_is_missing(const std::map<uint32_t, std::map<int, std::string>>& given,
                             uint32_t sequence) const override {
    std::set<int> missing;
    const auto found = given.find(sequence);
    for (int rank = 0; rank < options_.ranks; ++rank) {
      if (found == given.end() || found->second.count(rank) == 0) missing.insert(rank);
    }
    return "the rendezvous at " + options_.address + " has not heard from " + list(missing) + " of " +
           std::to_string(options_.ranks) + ": look for the error that ended them";
  }

  std::string why_not_joined() const override {
    if (!trouble_.empty() && !acceptor_.is_open()) {
      return "rank 0 cannot listen at " + options_.address + ": " + trouble_ +
             ". Choose an address of this host and a free port in MEGASCALE_RENDEZVOUS";
    }
    std::set<int> missing;
    for (int rank = 1; rank < options_.ranks; ++rank) {
      if (present_.count(rank) == 0) missing.insert(rank);
    }
    std::string text = "rank 0 waited " + std::to_string(options_.timeout.count() / 1000) + " s at " +
                       options_.address + " and " + list(missing) + " of " + std::to_string(options_.ranks) +
                       " did not come";
    if (refusals_ > 0) {
      text +=
          "; " + std::to_string(refusals_) + " connections were refused, the last because " + last_refusal_;
    }
    return text +
           ". Is each of them running, with the same MEGASCALE_RENDEZVOUS, and can it reach this host?";
  }

  std::string host_, port_;
  Tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  const std::string nonce_;
  std::set<SessionPtr> strangers_;
  std::map<int, SessionPtr> members_;
  // With mutex_:
  std::set<int> present_;
  std::string trouble_;
  int refusals_ = 0;
  std::string last_refusal_;
};

}  // namespace

std::unique_ptr<Rendezvous::Core> make_root(const RendezvousOptions& options) {
  return std::make_unique<Root>(options);
}

}  // namespace megascale::host
