// A link that is one TCP connection. The kernel does congestion control; what it sees (RTT, retransmissions,
// CE marks) is reported, and its silence is found: data unacknowledged by the other end's kernel for
// `flap_detect`.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "transport/base/statistics.h"
#include "transport/link.h"
#include "transport/tcp/frame.h"

namespace megascale::tcp {

enum class Side : uint8_t { sends, receives };

class TcpLink final : public Link {
 public:
  // Takes over a connected, non-blocking socket.
  TcpLink(int fd, Side, Duration flap_detect, RailStatistics&, std::string description);
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  bool has_room(Time) override { return fd_ >= 0 && !out_pending(); }
  Post put(Sink&, const Chunk&, const std::byte* data, Time) override;
  Post say(Sink&, ConstBytes record, Time) override;
  void poll(Sink&, Time) override;
  void check(Sink&, Time) override;
  void fence() override;
  void lost(Sink& s, Cause c) override { give_up(s, c); }
  int descriptor() const override { return fd_; }
  bool wants_out() const override { return out_pending(); }
  std::string describe() const override { return description_; }

 private:
  enum class Reading : uint8_t { frame, payload, unwanted, record };

  bool out_pending() const { return out_frame_left_ || out_left_ || !queue_.empty(); }
  bool flush(Sink&);
  bool send_some(Sink&, const void* a, std::size_t na, const void* b, std::size_t nb, std::size_t& sent);
  bool read_some(Sink&);
  bool read_once(Sink&);
  bool take_frames(Sink&);
  bool take_frame(Sink&, const Frame&);
  void give_up(Sink&, Cause);
  void give_up_errno(Sink&, int error);

  int fd_;
  const Side side_;
  bool broken_ = false, fenced_ = false, told_ = false;
  const Duration flap_detect_;

  // outgoing: a frame, what follows it, then records that had to wait for a frame's end
  Frame out_frame_;
  std::size_t out_frame_left_ = 0, out_left_ = 0;
  const std::byte* out_data_ = nullptr;
  std::vector<std::byte> queue_;
  int write_error_ = 0;   // the socket takes no more
  bool in_read_ = false;  // what is written now answers what was read

  // incoming
  Reading reading_ = Reading::frame;
  Chunk chunk_;
  std::byte* into_ = nullptr;
  std::size_t left_ = 0;
  std::size_t staged_ = 0;  // bytes in staging_
  std::size_t stage_;  // how much may be staged: a receiver takes one frame at a time, so that no payload
                       // ever passes through here; a sender hears only records
  std::array<std::byte, 16 * sizeof(Frame)> staging_;
  std::array<std::byte, Link::kRecord> record_;

  // silence
  uint64_t acked_ = 0;
  Time stuck_since_ = kNever, reported_{};
  uint32_t retransmissions_ = 0, ce_ = 0;
  RailStatistics& statistics_;
  std::string description_;
};

}  // namespace megascale::tcp
