#include "transport/tcp/tcp_link.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "transport/base/log.h"
#include "transport/tcp/socket.h"

namespace megascale::tcp {
namespace {

constexpr std::size_t kNearTheEnd = 256 << 10;
constexpr int kReadsPerPoll = 8;  // then the caller gets its turn
constexpr Duration kReportEvery = 100ms;
constexpr std::size_t kQueue = 64 * sizeof(Frame);

Cause cause_of(int error) {
  switch (error) {
    case ECONNRESET:
    case EPIPE:
      return Cause::reset;
    default:
      return Cause::kernel_error;
  }
}

// Has the kernel throw bytes away without copying them. Not recv(): a sanitizer would believe that it wrote
// them to where null points.
ssize_t throw_away(int fd, std::size_t n) {
  return syscall(SYS_recvfrom, fd, nullptr, n, MSG_DONTWAIT | MSG_TRUNC, nullptr, nullptr);
}

}  // namespace

TcpLink::TcpLink(int fd, Side side, Duration flap_detect, RailStatistics& statistics, std::string description)
    : fd_(fd),
      side_(side),
      flap_detect_(flap_detect),
      stage_(side == Side::sends ? sizeof staging_ : sizeof(Frame)),
      statistics_(statistics),
      description_(std::move(description)) {}

TcpLink::~TcpLink() { fence(); }

// ---- out ----

// False: the link is broken. Takes what the socket takes.
bool TcpLink::send_some(Sink& sink, const void* a, std::size_t na, const void* b, std::size_t nb,
                        std::size_t& sent) {
  ssize_t n;
  if (na && nb) {
    iovec v[2] = {{const_cast<void*>(a), na}, {const_cast<void*>(b), nb}};
    msghdr m{};
    m.msg_iov = v;
    m.msg_iovlen = 2;
    n = sendmsg(fd_, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  } else {
    n = send(fd_, na ? a : b, na ? na : nb, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  sent = n > 0 ? static_cast<std::size_t>(n) : 0;
  if (n >= 0 || errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return true;
  write_error_ = errno;
  if (in_read_) return true;  // which goes on, and finds the end
  // What the other end said last, perhaps why it closed, is still there.
  for (int i = 0; i < kReadsPerPoll && read_some(sink); i++) {
  }
  give_up_errno(sink, write_error_);
  return false;
}

Post TcpLink::put(Sink& sink, const Chunk& c, const std::byte* data, Time) {
  if (fd_ < 0) return Post::broken;
  if (out_pending()) return Post::again;
  out_frame_ = frame_of(c, data);
  out_frame_left_ = sizeof out_frame_;
  out_data_ = data;
  out_left_ = out_frame_.length;
  return flush(sink) ? Post::ok : Post::broken;
}

Post TcpLink::say(Sink& sink, ConstBytes record, Time) {
  if (fd_ < 0) return Post::broken;
  if (queue_.size() > kQueue) return Post::again;
  Frame f = frame_of(record);
  auto bytes = reinterpret_cast<const std::byte*>(&f);
  queue_.insert(queue_.end(), bytes, bytes + sizeof f);
  if (f.length) queue_.insert(queue_.end(), record.begin(), record.end());
  return flush(sink) ? Post::ok : Post::broken;
}

bool TcpLink::flush(Sink& sink) {
  std::size_t n = 0;
  if (out_frame_left_ || out_left_) {
    auto frame = reinterpret_cast<const std::byte*>(&out_frame_) + sizeof out_frame_ - out_frame_left_;
    if (!send_some(sink, frame, out_frame_left_, out_data_, out_left_, n)) return false;
    std::size_t of_frame = std::min(n, out_frame_left_);
    out_frame_left_ -= of_frame;
    out_data_ += n - of_frame;
    out_left_ -= n - of_frame;
    if (out_frame_left_ || out_left_) return true;
  }
  if (!queue_.empty()) {
    if (!send_some(sink, queue_.data(), queue_.size(), nullptr, 0, n)) return false;
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return true;
}

// ---- in ----

void TcpLink::poll(Sink& sink, Time) {
  if (fenced_) {
    if (!told_) {
      told_ = true;
      sink.fenced(*this);
    }
    return;
  }
  if (fd_ < 0) return;
  if (out_pending() && !flush(sink)) return;
  for (int i = 0; i < kReadsPerPoll && read_some(sink); i++) {
  }
}

// Reads once; false: nothing more to be had now.
bool TcpLink::read_some(Sink& sink) {
  in_read_ = true;
  bool more = read_once(sink);
  in_read_ = false;
  return more;
}

bool TcpLink::read_once(Sink& sink) {
  std::size_t body = reading_ == Reading::frame ? 0 : left_;
  // What follows a payload is asked for together with its end, never while most of it is still to come.
  std::size_t room = reading_ == Reading::unwanted || body > kNearTheEnd ? 0 : stage_ - staged_;
  ssize_t r;
  if (body && room) {
    iovec v[2] = {{into_, body}, {staging_.data() + staged_, room}};
    msghdr m{};
    m.msg_iov = v;
    m.msg_iovlen = 2;
    r = recvmsg(fd_, &m, MSG_DONTWAIT);
  } else if (body) {
    r = reading_ == Reading::unwanted ? throw_away(fd_, body) : recv(fd_, into_, body, MSG_DONTWAIT);
  } else {
    r = recv(fd_, staging_.data() + staged_, room, MSG_DONTWAIT);
  }
  if (r < 0) {
    if (errno != EAGAIN && errno != EINTR) give_up_errno(sink, errno);
    return false;
  }
  if (r == 0) return give_up(sink, write_error_ ? cause_of(write_error_) : Cause::closed), false;
  std::size_t got = static_cast<std::size_t>(r), want = body + room;
  bool full = got == want;  // otherwise the socket is empty: the next read would only say so
  std::size_t of_body = std::min(got, body);
  staged_ += got - of_body;
  if (body) {
    left_ -= of_body;
    if (into_) into_ += of_body;
    if (left_) return full;
    Reading what = reading_;
    reading_ = Reading::frame;
    if (what == Reading::payload) sink.placed(*this, chunk_);
    else if (what == Reading::record)
      sink.heard(*this, {record_.data(), static_cast<std::size_t>(into_ - record_.data())});
    if (fd_ < 0) return false;
  }
  return take_frames(sink) && full;
}

// Acts on the whole frames that are staged. A receiver stages one at most, a sender several.
bool TcpLink::take_frames(Sink& sink) {
  std::size_t used = 0;
  while (staged_ - used >= sizeof(Frame) && reading_ == Reading::frame) {
    Frame f;
    std::memcpy(&f, staging_.data() + used, sizeof f);
    used += sizeof f;
    if (!take_frame(sink, f)) return false;
    if (reading_ == Reading::frame) continue;
    // a payload: what of it is staged already is taken from there (only a sender, who stages more than a
    // frame)
    std::size_t n = std::min(left_, staged_ - used);
    if (n && into_) std::memcpy(into_, staging_.data() + used, n);
    used += n;
    left_ -= n;
    if (into_) into_ += n;
    if (left_) break;
    Reading what = reading_;
    reading_ = Reading::frame;
    if (what == Reading::record)
      sink.heard(*this, {record_.data(), static_cast<std::size_t>(into_ - record_.data())});
    else if (what == Reading::payload) sink.placed(*this, chunk_);
    if (fd_ < 0) return false;
  }
  std::memmove(staging_.data(), staging_.data() + used, staged_ - used);
  staged_ -= used;
  return true;
}

bool TcpLink::take_frame(Sink& sink, const Frame& f) {
  if (!f.plausible()) {
    logf(Level::warn, "%s: the peer sent a frame that makes no sense; the link is given up",
         description_.c_str());
    return give_up(sink, Cause::protocol), false;
  }
  if (f.kind == Frame::kRecord) {
    if (f.inside_bytes) {
      sink.heard(*this, {f.inside, f.inside_bytes});
    } else {
      reading_ = Reading::record;
      into_ = record_.data();
      left_ = f.length;
    }
    return fd_ >= 0;
  }
  chunk_ = f.chunk();
  into_ = sink.land(*this, chunk_);
  if (fd_ < 0) return false;
  if (!f.length) {
    if (into_ && f.inside_bytes) std::memcpy(into_, f.inside, f.inside_bytes);
    if (into_ || chunk_.total == 0) sink.placed(*this, chunk_);
    return fd_ >= 0;
  }
  reading_ = into_ ? Reading::payload : Reading::unwanted;
  left_ = f.length;
  return true;
}

// ---- life and death ----

void TcpLink::give_up(Sink& sink, Cause cause) {
  if (broken_ || fenced_) return;
  broken_ = true;
  sink.broke(*this, cause);
}

void TcpLink::give_up_errno(Sink& sink, int error) {
  logf(Level::trace, "%s: %s", description_.c_str(), strerror(error));
  give_up(sink, cause_of(error));
}

// Our end closed means that nothing more can be read into anybody's buffer: for a receiver that is the whole
// fence.
void TcpLink::fence() {
  if (fenced_) return;
  fenced_ = true;
  if (fd_ < 0) return;
  if (broken_) {
    linger now{1, 0};  // a reset, and no retransmissions for nothing
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  } else {
    for (int i = 0; i < 64 && throw_away(fd_, 1 << 20) > 0; i++) {
    }  // closing with unread bytes would reset the connection and might lose our last words
  }
  close_descriptor(fd_);
  fd_ = -1;
}

void TcpLink::check(Sink& sink, Time now) {
  if (fd_ < 0) return;
  tcp_info i{};
  socklen_t n = sizeof i;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &i, &n)) return;
  if (now - reported_ >= kReportEvery) {
    reported_ = now;
    if (i.tcpi_rtt) statistics_.saw_rtt(std::chrono::microseconds(i.tcpi_rtt));
    count(statistics_.retransmissions, i.tcpi_total_retrans - retransmissions_);
    count(statistics_.ce_marks, i.tcpi_delivered_ce - ce_);
    retransmissions_ = i.tcpi_total_retrans;
    ce_ = i.tcpi_delivered_ce;
  }
  // With a closed window the kernel probes ever more rarely: two probes without an answer are silence, one is
  // not.
  bool owed = i.tcpi_unacked > 0 || i.tcpi_probes >= 2;
  if (!owed || i.tcpi_bytes_acked != acked_) {
    acked_ = i.tcpi_bytes_acked;
    stuck_since_ = owed ? now : kNever;
    return;
  }
  if (stuck_since_ == kNever) stuck_since_ = now;
  bool heard = std::chrono::milliseconds(i.tcpi_last_ack_recv) < flap_detect_;
  if (!heard && now - stuck_since_ >= flap_detect_) give_up(sink, Cause::silence);
}

}  // namespace megascale::tcp
