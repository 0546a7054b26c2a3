// A TCP connection that carries the rendezvous's frames: reads them one by one, writes them in order.
// Everything happens on the thread of its io_context.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "plugin/host/rendezvous_wire.h"

namespace megascale::host {

class FramedSocket : public std::enable_shared_from_this<FramedSocket> {
 public:
  using Tcp = boost::asio::ip::tcp;
  using OnFrame = std::function<void(const wire::Header&, std::string& body)>;
  using OnEnd = std::function<void(const std::string& reason)>;

  explicit FramedSocket(Tcp::socket socket) : socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  // Begins to read. `on_end` comes once, unless `close` came before.
  void start(OnFrame on_frame, OnEnd on_end);
  void send(std::string frame);
  void close_when_sent();
  void close();
  bool idle() const { return outbox_.empty(); }

  void allow_bodies(uint32_t largest) { limit_ = largest; }
  // Ends the connection with this reason unless `forget_deadline` comes before.
  void set_deadline(std::chrono::milliseconds, std::string reason);
  void forget_deadline() { timer_.cancel(); }
  std::string peer() const;

 private:
  void read_header();
  void read_body(const wire::Header&);
  void write_next();
  void end(const std::string& reason);

  Tcp::socket socket_;
  boost::asio::steady_timer timer_;
  OnFrame on_frame_;
  OnEnd on_end_;
  std::array<uint8_t, wire::kHeaderSize> header_{};
  std::string body_;
  std::deque<std::string> outbox_;
  uint32_t limit_ = wire::kMaxStrangerBody;
  bool closing_ = false;
};

}  // namespace megascale::host
