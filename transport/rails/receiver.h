// The receiving end of a connection: grants what was posted, finds each chunk its place, knows which chunks
// are there, fences what is over before anything is replayed, and says what it has.
#pragma once
#include <vector>

#include "transport/rails/connection.h"
#include "transport/rails/sender.h"

namespace megascale {

class Receiver final : public Connection {
 public:
  static constexpr std::size_t kWindow = wire::kWindow;
  // Receives that can be outstanding: what is left of the window when the eager messages ahead are counted.
  static constexpr uint64_t kPosted = kWindow - Sender::kAhead;

  Receiver(const ConnectionOptions&, std::string name, std::string peer, Dialer&);

  Request* post(std::byte* data, Bytes capacity, const void* mark, Time now);
  bool forget(const void* mark, Time now);

  // Instead of close() when all that was posted is done: says goodbye, and lives on until the sender is known
  // to have heard the last acknowledgement, for that may be lost with its link.
  void part(Time now);
  bool parting() const { return parting_ && state_ == State::open; }

  // The peer dialled us: a link of a new epoch. Refused (false) when that epoch is over already.
  bool accepted(std::unique_ptr<Link>, Epoch, const Path& path, Time now);
  void rail_returned(const std::string&, Time) override {}
  bool outstanding() const override { return completed_ != posted_; }
  bool waiting() const override { return completed_ != posted_ || dirty_ || open_ || parting_; }
  Epoch newest() const { return newest_; }
  // For tests: copies that were made because a message came before its receive was posted.
  uint64_t early_copies() const { return early_copies_; }

 private:
  struct Slot : Request {
    std::byte* data = nullptr;
    Bytes capacity = 0;
    const void* mark = nullptr;
    Bytes total = 0;
    uint32_t chunk_bytes = 0;  // 0: nothing of it has come yet
    uint64_t placed = 0;       // chunks that are there
    int counted = 0;           // how many
    int early = -1;            // index of the buffer of a message that came before its receive
    bool whole = false;
  };

  const char* direction() const override { return "from"; }
  void move(Time now) override;
  void manage(Time now) override;
  void link_broke(Attached&, Life was, Cause) override;
  void link_fenced(Attached&) override;
  void last_words() override;
  void record(Attached&, wire::Kind, ConstBytes) override;
  std::byte* land(Link&, const Chunk&) override;
  void placed(Link&, const Chunk&) override;

  Slot& slot(MessageId m) { return slots_[m % kWindow]; }
  bool fits(Attached&, const Chunk&, Slot&);
  std::byte* early_buffer(Slot&);
  void deliver();
  bool unpack(Slot&);
  void too_large(MessageId, Bytes total, Bytes capacity);
  const Attached* fencing(Epoch upto) const;
  void heard_open(Attached&, const wire::Open&);
  void answer_open();
  void say_resume(Attached&);
  void say_state();
  void say_bye();
  Attached* freshest();
  bool fail_if_overdue(Time now);

  std::array<Slot, kWindow> slots_{};
  // Buffers of kEager bytes for messages that came before their receives, made when first needed. One for
  // each message of the window: kAhead are not enough when those which came must wait for one that did not.
  std::unique_ptr<std::byte[]> early_;
  uint64_t early_free_ = ~0ull;
  std::byte nowhere_{};  // where messages of zero bytes land
  uint64_t early_copies_ = 0;
  MessageId posted_ = 0;     // all below have a receive
  MessageId completed_ = 0;  // all below are delivered
  MessageId said_posted_ = 0, said_completed_ = 0;
  bool dirty_ = false, overdue_ = false;  // a STATE is due; has been since an earlier call
  bool bulk_ = false;                     // the last message was large: grants are urgent
  Time dirty_since_{};
  bool bye_due_ = false;
  bool open_ = false;      // an OPEN awaits its answer
  wire::Open open_asked_;  // the last
  Epoch open_link_ = 0, newest_ = 0;
  Time fencing_since_ = kNever;  // a link awaits its fence
  Time next_check_of_peer_{};
  Duration check_back_off_{};
};

}  // namespace megascale
