#include "plugin/host/framed_socket.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

namespace megascale::host {

namespace asio = boost::asio;
using boost::system::error_code;

void FramedSocket::start(OnFrame on_frame, OnEnd on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  error_code ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  read_header();
}

void FramedSocket::read_header() {
  asio::async_read(socket_, asio::buffer(header_), [self = shared_from_this()](error_code error, size_t) {
    if (error) return self->end(error.message());
    const auto header = wire::decode(self->header_.data());
    if (!header) return self->end("it does not speak the rendezvous's protocol");
    if (header->version != wire::kVersion) {
      return self->end("it speaks version " + std::to_string(header->version) +
                       " of the rendezvous's protocol, this is version " + std::to_string(wire::kVersion) +
                       "; install the same release everywhere");
    }
    if (header->length > self->limit_) return self->end("it announces a message that is too large");
    self->read_body(*header);
  });
}

void FramedSocket::read_body(const wire::Header& header) {
  body_.resize(header.length);
  asio::async_read(socket_, asio::buffer(body_),
                   [self = shared_from_this(), header](error_code error, size_t) {
                     if (error) return self->end(error.message());
                     const OnFrame on_frame = self->on_frame_;  // a copy: it may close this connection
                     if (on_frame) on_frame(header, self->body_);
                     if (self->socket_.is_open() && !self->closing_) self->read_header();
                   });
}

void FramedSocket::send(std::string frame) {
  if (!socket_.is_open() || closing_) return;
  outbox_.push_back(std::move(frame));
  if (outbox_.size() == 1) write_next();
}

void FramedSocket::write_next() {
  asio::async_write(socket_, asio::buffer(outbox_.front()),
                    [self = shared_from_this()](error_code error, size_t) {
                      if (error) {
                        self->outbox_.clear();
                        return self->end(error.message());
                      }
                      self->outbox_.pop_front();
                      if (!self->outbox_.empty()) return self->write_next();
                      if (self->closing_) self->close();
                    });
}

void FramedSocket::close_when_sent() {
  closing_ = true;
  if (outbox_.empty()) close();
}

void FramedSocket::close() {
  on_frame_ = nullptr;
  on_end_ = nullptr;
  timer_.cancel();
  error_code ignored;
  socket_.shutdown(Tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void FramedSocket::set_deadline(std::chrono::milliseconds after, std::string reason) {
  timer_.expires_after(after);
  timer_.async_wait([self = shared_from_this(), reason = std::move(reason)](error_code error) {
    if (!error) self->end(reason);
  });
}

std::string FramedSocket::peer() const {
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  return error ? "a closed connection"
               : endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

void FramedSocket::end(const std::string& reason) {
  const OnEnd on_end = std::move(on_end_);
  close();
  if (on_end) on_end(reason);
}

}  // namespace megascale::host
