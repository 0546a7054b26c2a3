// The sending end of a connection: cuts messages into chunks, pulls them onto whichever link has room, keeps
// every byte until the receiver acknowledged the message, dials new links for broken ones and replays on
// them.
#pragma once
#include <vector>

#include "transport/rails/connection.h"
#include "transport/rails/trust.h"

namespace megascale {

class Sender final : public Connection {
 public:
  // Messages up to kEager bytes may travel before they are granted, at most kAhead of them, and are done as
  // soon as they were copied (the copies are bounded too).
  static constexpr Bytes kEager = 4096;
  static constexpr uint64_t kAhead = 32;
  static constexpr std::size_t kWindow = wire::kWindow;
  static constexpr std::size_t kPaths = wire::kEpochs / 2;  // an OPEN can name a link and a dial of each

  Sender(const ConnectionOptions&, std::string name, std::string peer, Dialer&, std::vector<Path>);

  // Null: no room now, try again. `mark` is what forget() names.
  Request* post(const std::byte* data, Bytes size, const void* mark, Time now);
  // Ends everything that touches the buffers posted with `mark`. True: there was something, and the
  // connection is over.
  bool forget(const void* mark, Time now);
  // Messages that are reported done but not acknowledged yet: the connection must not be destroyed before.
  bool all_acknowledged() const { return completed_ == next_; }

  // Whether chunks wait for a grant or for room.
  bool behind() const { return first_todo_ != next_; }
  // Whether all that is not acknowledged was copied, so that the caller's memory is not needed any more.
  bool only_copies_left() const;

  void dialled(int path, Epoch, std::unique_ptr<Link>, Time now);
  void dial_failed(int path, Epoch, Cause, const std::string& why, Time now);
  void rail_returned(const std::string& rail, Time now) override;
  // The receiver's process says that it has no link left of those up to `newest`: what it closed, or said
  // last, may never have come here.
  void lost_there(Epoch newest, Time now);
  bool outstanding() const override { return completed_ != next_; }
  bool waiting() const override { return completed_ != next_ || state_ == State::connecting; }

  Epoch issued() const { return issued_; }

 private:
  struct Slot : Request {
    const std::byte* data = nullptr;
    const void* mark = nullptr;
    uint32_t chunk_bytes = 0;
    int copy = -1;                  // index of the bounded copy, or -1
    uint64_t todo = 0, placed = 0;  // chunks not yet put; chunks that a RESUME says are there
    std::array<Epoch, Chunk::kMost> carrier{};
  };
  struct Line {  // a path and what is known of it
    Path path;
    Trust trust;
    Epoch dialling = 0;
    bool lost_silently = false;  // its last link was not reset but lost: try the others first
  };

  const char* direction() const override { return "to"; }
  void peer_closed() override;
  bool mending() const override { return open_wanted_ || asked_since_ != kNever; }
  void move(Time now) override;
  void manage(Time now) override;
  void link_broke(Attached&, Life was, Cause) override;
  void link_fenced(Attached&) override {}
  void record(Attached&, wire::Kind, ConstBytes) override;
  std::byte* land(Link&, const Chunk&) override { return nullptr; }
  void placed(Link& l, const Chunk&) override { broke(l, Cause::protocol); }

  void listen(Time now);
  Slot& slot(MessageId m) { return slots_[m % kWindow]; }
  bool may_travel(const Slot&) const;
  Attached* link_with_room(Time now);
  bool put_chunk(Slot&, Attached&, int index, Time now);
  void acknowledge(uint64_t completed, uint64_t granted, Attached&);
  void resume(Attached&, const wire::Resume&);
  void reclaim(Slot&, uint64_t placed_there, uint64_t& chunks, Bytes& bytes);
  void say_open(Time now);
  void dial(int line);
  void dial_if_lost(Time now);
  void come_home(Time now);
  void retire_spares(Time now);
  bool carries_chunks(Epoch) const;
  bool is_home(int path) const { return path < options_.homes; }
  void stripe_over(int line, Time now);
  void keep_one();  // without striping: which link goes on, which retire
  bool fail_if_overdue(Time now);
  void fail_unreachable(Time now);
  std::vector<int> by_preference(Time now) const;

  std::vector<Line> lines_;
  std::array<Slot, kWindow> slots_{};
  std::unique_ptr<std::byte[]> copies_;
  uint32_t copies_free_ = 0;  // one bit each of kAhead
  MessageId next_ = 0;        // to be posted
  MessageId first_todo_ = 0;  // first message with chunks to put
  MessageId completed_ = 0;   // all below are acknowledged
  MessageId granted_ = 0;     // all below are granted
  Epoch issued_ = 0;
  bool open_wanted_ = false;    // an OPEN must be said
  Time asked_since_ = kNever;   // the first OPEN that got no answer
  uint32_t open_sequence_ = 0;  // of the last OPEN
  Epoch open_issued_ = 0;
  std::vector<Epoch> open_alive_;  // that it named
  std::size_t turn_ = 0;           // which link is asked first
};

}  // namespace megascale
