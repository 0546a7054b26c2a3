// What both ends of a connection share: the table of its links, the judgement of its peer, and how it fails.
// A connection is one-way (a Sender here, a Receiver there) and immortal as long as one path comes back in
// time. Not thread-safe: whoever owns the endpoint drives it, and passes the time in.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/base/statistics.h"
#include "transport/link.h"
#include "transport/rails/wire.h"

namespace megascale {

class Event;

struct ConnectionOptions {
  Duration flap_timeout = 120s;  // without any link: then the connection fails
  Duration connect_timeout = 60s;
  Duration return_hold = 2s;  // how long the home path must have been well before traffic returns to it
  Duration ping_after = 250ms;
  Bytes smallest_chunk = 512 << 10;
  bool stripe = false;  // use all paths at once
  int homes = 1;        // paths 0..homes-1 are at home (more than one for a merged device)

  // Only for the test that proves that each of these protects: what it leaves out must make it fail.
  struct {
    bool fence = false, generation = false, duplicates = false;
  } leave_out;
};

// One path: a local rail to one of the peer's addresses.
struct Path {
  std::string rail;  // the local rail's name, as statistics know it
  std::string name;  // for people: "rail0 10.0.0.1 -> 10.0.0.2"
};

// What the user's request points to: one message.
struct Request {
  class Connection* connection = nullptr;
  MessageId message = 0;
  Bytes size = 0;
  bool busy = false;  // handed out and not yet reported done
  bool done = false;
};

// The lowest n bits: the first n chunks of a message.
constexpr uint64_t ones(int n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

class Connection : public Sink {
 public:
  enum class State : uint8_t { connecting, open, closed, failed };

  Connection(const ConnectionOptions&, std::string name, std::string peer, Dialer&);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void* holder = nullptr;  // whoever drives it may note here how a Request leads back to it

  State state() const { return state_; }
  const Error& error() const { return error_; }
  const std::string& peer() const { return peer_; }
  const std::string& name() const { return name_; }

  // Moves what can be moved without waiting. Cheap; call it often.
  void progress(Time now);
  // Whether anything is owed to or by the caller: if so, somebody must call progress() now and then.
  virtual bool waiting() const = 0;
  // Whether messages were posted that are not done.
  virtual bool outstanding() const = 0;
  // Whether somebody must call progress() now and then although the caller asks for nothing: what was lost is
  // mended while it is idle, not when it comes back.
  bool needs_care() const;
  // When progress() has work to do even if nothing arrives.
  Time next_deadline() const { return next_check_; }
  // Whether no link is left that could touch anybody's memory. After close(), fail() or forget(), drive
  // progress() until then before buffers are given back.
  bool settled() const { return links_.empty(); }

  // The peer's process is gone although its host answers, or it does not know this connection any more.
  void peer_gone(const std::string& why, Time now);
  // A local rail was lost (its links are to be given up at once), or came back.
  void rail_lost(const std::string& rail, Cause, Time now);
  virtual void rail_returned(const std::string& rail, Time now) = 0;
  // Ends the connection from this side. Links are closed; requests that are not done never will be.
  void close(wire::Reason, Time now);
  void fail(Error, Time now, wire::Reason said = wire::Reason::aborted);

  // For the thread that sleeps on the links' descriptors.
  template <class F>
  void each_link(F&& f) const {
    for (const auto& l : links_)
      if (l.link) f(*l.link);
  }

 protected:
  enum class Life : uint8_t { opening, live, retiring, dead };
  struct Attached {
    std::unique_ptr<Link> link;
    Epoch epoch = 0;
    int path = 0;
    Life life = Life::dead;
    bool fenced = false;
    Time heard{};   // last word from the other end
    Time pinged{};  // when we last made a sound only to hear an echo
    RailStatistics* statistics = nullptr;
    bool usable() const { return life == Life::opening || life == Life::live || life == Life::retiring; }
  };

  virtual const char* direction() const = 0;  // "to" the peer or "from" it
  virtual void peer_closed() {}               // it said goodbye
  // Something is awaited from now on: with no link, traffic stands still.
  void begin_to_wait() {
    if (lost_since_ != kNever && stalled_since_ == kNever) stalled_since_ = now_;
  }
  virtual bool mending() const { return false; }  // an answer about lost links is awaited
  virtual void move(Time now) = 0;                // what a poll allows: put chunks, say states
  virtual void manage(Time now) = 0;              // every few milliseconds: dial, return, give up
  virtual void link_broke(Attached&, Life was, Cause) = 0;
  virtual void link_fenced(Attached&) = 0;
  virtual void last_words() {}  // before the goodbye
  virtual void record(Attached&, wire::Kind, ConstBytes) = 0;

  Attached* find(const Link&);
  Attached* usable_link();  // any link that can carry a record
  bool any_usable() const;
  // Null: the table is full of links whose fence nobody confirmed, and this one is not taken.
  Attached* attach(std::unique_ptr<Link>, Epoch, const Path&, int path, Time now);
  bool say(Attached&, const wire::Record&);
  void drop(Attached&, Cause);  // gives a link up and has it fenced
  void sweep();                 // forgets links that are fenced and resolved
  // An event of this connection. The listener's process made its name, so that others of ours may have the
  // same: only with peer and direction is it unique.
  Event event(const char* what) const;
  void note_recovery(const Attached&, uint64_t chunks, Bytes bytes);
  void complain_protocol(Attached&, const char* what);
  // The generation check: what a link says after it was given up belongs to a time that is over, and proves
  // nothing.
  bool over(const Attached& a) const { return !a.usable() && !options_.leave_out.generation; }
  void note_word(Attached&);  // the other end of this link lives

  // Sink, shared part
  void heard(Link&, ConstBytes) final;
  void fenced(Link&) final;
  void broke(Link&, Cause) final;

  ConnectionOptions options_;
  std::string name_, peer_;
  Dialer& dialer_;
  State state_ = State::connecting;
  bool parting_ = false;  // our caller is done; the other end closes its links when it has heard all
  Error error_;
  std::vector<Attached> links_;
  Time now_{};  // of the call that is under way
  Time created_{}, lost_since_ = kNever, stalled_since_ = kNever;
  Time next_check_{};
  Duration ping_interval_{};
  int attempts_ = 0;      // dials or checks since the last link was lost
  int fenced_since_ = 0;  // links fenced since the last link was lost
  int violations_ = 0;    // of the protocol, by the peer
  std::string last_trouble_;
};

}  // namespace megascale
