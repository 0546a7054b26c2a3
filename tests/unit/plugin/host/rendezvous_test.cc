#include "plugin/host/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <thread>

#include "plugin/host/launch.h"
#include "plugin/host/rendezvous_wire.h"

namespace megascale::host {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Options = RendezvousOptions;
using Tcp = boost::asio::ip::tcp;

// Runs each participant on a thread of its own; gives their errors, "no error" for none.
std::vector<std::string> together(const std::vector<Options>& participants,
                                  const std::function<void(Rendezvous&, const Options&)>& body) {
  std::vector<std::string> errors(participants.size(), "no error");
  std::vector<std::thread> threads;
  for (size_t i = 0; i < participants.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        Rendezvous rendezvous(participants[i]);
        body(rendezvous, participants[i]);
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<Options> ranks_at(const std::string& address, int ranks,
                              std::chrono::milliseconds timeout = 60s) {
  std::vector<Options> result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back({rank, ranks, address, "", timeout});
  return result;
}

// A connection of somebody who does not belong to the job.
class Stranger {
 public:
  explicit Stranger(const std::string& address) : socket_(io_) {
    const auto [host, port] = split_address(address);
    const Tcp::endpoint endpoint(boost::asio::ip::make_address(host), static_cast<uint16_t>(std::stoi(port)));
    for (int attempt = 0; attempt < 1000; ++attempt) {
      boost::system::error_code error;
      socket_.connect(endpoint, error);
      if (!error) return;
      socket_.close();
      std::this_thread::sleep_for(10ms);
    }
    throw std::runtime_error("nobody listens at " + address);
  }
  void say(const std::string& bytes) { boost::asio::write(socket_, boost::asio::buffer(bytes)); }
  std::string hear(size_t bytes) {
    std::string text(bytes, '\0');
    boost::system::error_code ended;
    text.resize(boost::asio::read(socket_, boost::asio::buffer(text), ended));
    return text;
  }

 private:
  boost::asio::io_context io_;
  Tcp::socket socket_;
};

TEST(Rendezvous, EveryoneGetsEveryonesBlobsManyTimes) {
  const auto errors = together(ranks_at(free_rendezvous(), 5), [](Rendezvous& r, const Options& o) {
    for (int round = 0; round < 20; ++round) {
      const auto blobs =
          r.all_gather(std::string(static_cast<size_t>(o.rank * 100), 'x') + std::to_string(round));
      ASSERT_EQ(blobs.size(), 5U);
      for (size_t rank = 0; rank < 5; ++rank) {
        EXPECT_EQ(blobs[rank], std::string(rank * 100, 'x') + std::to_string(round));
      }
    }
  });
  EXPECT_THAT(errors, testing::Each("no error"));
}

TEST(Rendezvous, OneRankNeedsNobody) {
  Rendezvous alone({.rank = 0, .ranks = 1});
  EXPECT_EQ(alone.all_gather("me"), std::vector<std::string>{"me"});
}

TEST(Rendezvous, ConnectingBeforeRankZeroListensIsFine) {
  const auto participants = ranks_at(free_rendezvous(), 2);
  std::vector<std::string> errors;
  std::thread early([&] {
    errors = together({participants[1]}, [](Rendezvous& r, const Options&) { r.all_gather("a"); });
  });
  std::this_thread::sleep_for(300ms);  // some attempts are refused meanwhile
  EXPECT_THAT(together({participants[0]}, [](Rendezvous& r, const Options&) { r.all_gather("b"); }),
              testing::ElementsAre("no error"));
  early.join();
  EXPECT_THAT(errors, testing::ElementsAre("no error"));
}

TEST(Rendezvous, SameAddressServesOneCommunicatorAfterAnother) {
  const std::string address = free_rendezvous();
  for (int round = 0; round < 10; ++round) {
    EXPECT_THAT(together(ranks_at(address, 3), [](Rendezvous& r, const Options&) { r.all_gather(""); }),
                testing::Each("no error"));
  }
}

TEST(Rendezvous, MissingRanksAreNamed) {
  auto participants = ranks_at(free_rendezvous(), 4, 500ms);
  participants.resize(2);
  const auto errors = together(participants, [](Rendezvous&, const Options&) {});
  EXPECT_THAT(errors[0], HasSubstr("ranks 2, 3 of 4 did not come"));
  EXPECT_EQ(errors[1], "no error");  // it was welcome; the exchange below is where it hears
}

TEST(Rendezvous, RankThatNeverGivesItsBlobIsNamedToAll) {
  const auto errors = together(ranks_at(free_rendezvous(), 3, 500ms), [](Rendezvous& r, const Options& o) {
    if (o.rank == 2) return std::this_thread::sleep_for(1s);
    r.all_gather("x");
  });
  EXPECT_THAT(errors[0], HasSubstr("has not heard from rank 2 of 3"));
  EXPECT_THAT(errors[1], HasSubstr("has not heard from rank 2 of 3"));
}

TEST(Rendezvous, RankThatLeavesIsNoticedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const auto errors = together(ranks_at(free_rendezvous(), 3), [](Rendezvous& r, const Options& o) {
    if (o.rank != 2) r.all_gather("x");
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 2"));
  EXPECT_THAT(errors[1], HasSubstr("rank 2"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);  // the timeout is 60 s
}

TEST(Rendezvous, NobodyAtTheAddressIsExplained) {
  auto participants = ranks_at(free_rendezvous(), 2, 10ms);
  const auto errors = together({participants[1]}, [](Rendezvous&, const Options&) {});
  EXPECT_THAT(errors[0], HasSubstr("rank 1 could not meet rank 0 at 127.0.0.1:"));
  EXPECT_THAT(errors[0], HasSubstr("Connection refused"));
}

TEST(Rendezvous, SecretsMustAgree) {
  for (const auto& [first, second] : {std::pair{"one", "two"}, std::pair{"", "two"}, std::pair{"one", ""}}) {
    auto participants = ranks_at(free_rendezvous(), 2, 2s);
    participants[0].secret = first;
    participants[1].secret = second;
    const auto errors = together(participants, [](Rendezvous&, const Options&) {});
    EXPECT_THAT(errors[1], HasSubstr("secrets differ"));
    EXPECT_THAT(errors[0], HasSubstr("secrets differ"));  // as the reason why nobody came
  }
  auto participants = ranks_at(free_rendezvous(), 3);
  for (Options& o : participants) o.secret = "the same";
  EXPECT_THAT(together(participants, [](Rendezvous& r, const Options&) { r.all_gather("x"); }),
              testing::Each("no error"));
}

TEST(Rendezvous, DisagreementAboutTheJobIsExplained) {
  auto participants = ranks_at(free_rendezvous(), 2, 2s);
  participants[1].ranks = 3;
  auto errors = together(participants, [](Rendezvous&, const Options&) {});
  EXPECT_THAT(errors[1], HasSubstr("rank 1 counts 3 ranks, rank 0 counts 2"));

  participants = ranks_at(free_rendezvous(), 3, 2s);
  participants[2].rank = 1;
  errors = together(participants, [](Rendezvous&, const Options&) {});
  const bool told = errors[1].find("is here already") != std::string::npos ||
                    errors[2].find("is here already") != std::string::npos;
  EXPECT_TRUE(told) << errors[1] << "\n" << errors[2];
}

TEST(Rendezvous, GarbageAndReplayedIntroductionsAreRefusedAndHarmNobody) {
  const std::string address = free_rendezvous();
  auto participants = ranks_at(address, 2);
  for (Options& o : participants) o.secret = "s";
  std::vector<std::string> errors;
  std::thread zero(
      [&] { errors = together({participants[0]}, [](Rendezvous& r, const Options&) { r.all_gather(""); }); });

  Stranger noise(address);
  noise.say(std::string(200, '\xff'));
  Stranger huge(address);
  huge.say(wire::frame(wire::Kind::hello, 1, 0, std::string(5000, 'x')));
  // An introduction that was good for another challenge.
  const std::string other(wire::kNonceSize, 'r'), mine(wire::kNonceSize, 'm');
  const Digest proof = wire::prove(wire::Proof::hello, "s", other, mine, 1, 2);
  std::string hello;
  wire::put_u32(hello, 2);
  hello += mine + std::string(proof.begin(), proof.end());
  Stranger replay(address);
  replay.say(wire::frame(wire::Kind::hello, 1, 0, hello));
  EXPECT_THAT(replay.hear(1000), HasSubstr("secrets differ"));

  const auto last = together({participants[1]}, [](Rendezvous& r, const Options&) { r.all_gather(""); });
  zero.join();
  EXPECT_THAT(errors, testing::ElementsAre("no error"));
  EXPECT_THAT(last, testing::ElementsAre("no error"));
}

TEST(Rendezvous, ImpostorWithoutTheSecretIsNotBelieved) {
  boost::asio::io_context io;
  Tcp::acceptor acceptor(io, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  const std::string address = "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  std::thread impostor([&] {
    Tcp::socket socket = acceptor.accept();
    const std::string challenge =
        wire::frame(wire::Kind::challenge, 0, 0, std::string(wire::kNonceSize, 'n'));
    boost::asio::write(socket, boost::asio::buffer(challenge));
    std::string hello(wire::kHeaderSize + 4 + wire::kNonceSize + 32, '\0');
    boost::asio::read(socket, boost::asio::buffer(hello));
    const std::string welcome = wire::frame(wire::Kind::welcome, 0, 0, std::string(32, 'w'));
    boost::asio::write(socket, boost::asio::buffer(welcome));
    boost::system::error_code ignored;
    socket.wait(Tcp::socket::wait_read, ignored);
  });
  Options member{1, 2, address, "s", 30s};
  EXPECT_THAT(together({member}, [](Rendezvous&, const Options&) {})[0],
              HasSubstr("does not know the job's secret"));
  impostor.join();
}

TEST(Rendezvous, FailureReachesEveryRank) {
  const auto errors = together(ranks_at(free_rendezvous(), 4), [](Rendezvous& r, const Options& o) {
    r.all_gather("");
    if (o.rank == 3) r.report_failure({1, "rank 3 lost rank 1"});
    const auto failure = r.await_failure(30s);
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->culprit, 1);
    EXPECT_EQ(failure->text, "rank 3 lost rank 1");
    EXPECT_TRUE(r.failed());
    std::this_thread::sleep_for(200ms);  // nobody leaves before all have heard
  });
  EXPECT_THAT(errors, testing::Each("no error"));
}

TEST(Rendezvous, AddressesAreChecked) {
  EXPECT_EQ(split_address("host:1"), (std::pair<std::string, std::string>("host", "1")));
  EXPECT_EQ(split_address("[fe80::1]:65535"), (std::pair<std::string, std::string>("fe80::1", "65535")));
  for (const char* wrong : {"", "host", ":1", "host:", "host:0", "host:65536", "host:1x", "fe80::1:5"}) {
    EXPECT_THROW(split_address(wrong), std::runtime_error) << wrong;
  }
}

}  // namespace
}  // namespace megascale::host
