// A link in virtual time that misbehaves as real ones do, by chance that a seed determines. What it may do is
// what link.h allows and no more:
//  - a chunk is put and arrives soon, late, never (then the link breaks), or twice; chunks overtake each
//    other; room is limited; the sender's bytes are read when the chunk leaves, not when it is put;
//  - records arrive in order, once, or the link breaks; they may overtake chunks;
//  - it breaks at both ends or at one; the other end learns from a reset, or by silence when it is owed
//    something, or long after;
//  - writes are one-sided and come in pieces: what land() named is written some time later, also after the
//    link broke, until the fence took effect, which is some time after it was asked for;
//  - a link that was given up goes on telling of chunks and records until it is fenced, repeats old records,
//    and tells of chunks whose bytes were lost.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/transport/rails/virtual_time.h"
#include "transport/link.h"

namespace megascale {

// How often and how long; all zero is a perfect link.
struct Faults {
  double lose = 0;          // a chunk or record never arrives
  double slow = 0;          // it takes up to `slowest`
  double duplicate = 0;     // a chunk arrives again
  double again = 0;         // put() or say() has no room for no reason
  double break_inside = 0;  // the link breaks inside put() or say()
  double nested = 0;        // put() or say() first tells of what has arrived
  double lie = 0;           // a broken link tells of a chunk whose bytes were lost
  double repeat = 0;        // a broken link repeats an old record at a poll
  double reset = 1;         // an end that goes tells the other
  bool reorder = false;
  Duration delay = 5us, slowest = 5us;
  Duration piece = 0us;  // the pieces of a chunk are written within this time
  Duration fence = 0us;  // a fence takes effect within this time
  Duration detection = 200ms;
  std::size_t room = 64;
};

// A way between two ports, which several links may use one after the other.
struct FaultyPath {
  bool up = true;
  std::vector<std::function<void()>> waiting;  // what arrives when it is up again
};

// What really happened, so that a test can say that it was not spared.
struct Happened {
  uint64_t chunks = 0, lost = 0, duplicates = 0, lies = 0, repeats = 0, broken = 0, one_ended = 0,
           writes_after_break = 0, writes_prevented = 0, dead_reports = 0, resets = 0, silences = 0,
           fences = 0, destroyed_unfenced = 0;
  Happened& operator+=(const Happened&);
};

// What all links of a test share.
struct FaultyWorld {
  VirtualTime time;
  Dice dice;
  Faults faults;
  Happened happened;
  bool over = false;  // the connections are being destroyed: links may go unfenced
  explicit FaultyWorld(uint64_t seed) : dice(seed) {}
};

enum class Side : uint8_t { sending = 0, receiving = 1 };

// The two ends of one link and what is under way between them. Lives as long as anything refers to it.
class FaultyWire : public std::enable_shared_from_this<FaultyWire> {
 public:
  FaultyWire(FaultyWorld& w, std::shared_ptr<FaultyPath> p, std::string name)
      : world_(w), path_(std::move(p)), name_(std::move(name)) {}
  // Each end once; an end that is never made never answers.
  std::unique_ptr<Link> make_end(Side);
  // That end breaks at its next poll, whether or not the other ever learns of it.
  void break_end(Side, Cause);
  bool in_use(Side) const;
  const std::shared_ptr<FaultyPath>& path() const { return path_; }

 private:
  friend class FaultyLink;
  struct Item {  // what arrived and is told of at a poll
    enum class What : uint8_t { chunk, placed, record } what;
    Chunk chunk;
    std::vector<std::byte> bytes;
  };
  struct Flight {  // what was sent and not yet taken by the other end's kernel or NIC
    uint64_t id;
    Time sent;
    bool chunk;
  };
  struct End {
    bool exists = false, broken = false, asked = false, fenced = false, told = false, landed = false;
    Cause trouble = Cause::reset;
    bool in_trouble = false;
    std::deque<Item> inbox;
    std::vector<Flight> flights;
    struct Said {
      std::vector<std::byte> bytes;
      bool lost;
      uint64_t flight;
    };
    std::deque<Said> said;  // records on their way from here, in order
    Time last_record{};
    std::vector<std::vector<std::byte>> heard;
  };

  End& end(Side s) { return ends_[static_cast<std::size_t>(s)]; }
  const End& end(Side s) const { return ends_[static_cast<std::size_t>(s)]; }
  static Side other(Side s) { return s == Side::sending ? Side::receiving : Side::sending; }
  bool reachable(Side s) const { return end(s).exists && !end(s).fenced; }
  Duration travel();
  uint64_t take_off(Side, bool chunk);
  void acknowledge(Side, uint64_t flight);
  void send_chunk(const Chunk&, const std::byte* data);
  void leave(const Chunk&, const std::byte* data, uint64_t flight);
  void arrive(const Chunk&, std::vector<std::byte> bytes, uint64_t flight);
  void write(const Chunk&, std::byte* to, std::vector<std::byte> bytes);
  void write_piece(const Chunk&, std::byte* to, std::shared_ptr<std::vector<std::byte>>, std::size_t from,
                   std::size_t size, std::shared_ptr<int> left);
  void say(Side, ConstBytes);
  void record_arrives(Side from);
  void ask_fence(Side);
  void fence_takes_effect(Side);
  void destroyed(Side);

  FaultyWorld& world_;
  std::shared_ptr<FaultyPath> path_;
  std::string name_;
  std::array<End, 2> ends_;
  uint64_t flights_ = 0;
};

class FaultyLink final : public Link {
 public:
  FaultyLink(std::shared_ptr<FaultyWire> w, Side s) : wire_(std::move(w)), side_(s) {}
  ~FaultyLink() override { wire_->destroyed(side_); }
  bool has_room(Time) override;
  Post put(Sink&, const Chunk&, const std::byte* data, Time) override;
  Post say(Sink&, ConstBytes, Time) override;
  void poll(Sink&, Time) override;
  void check(Sink&, Time) override;
  void fence() override { wire_->ask_fence(side_); }
  void lost(Sink& s, Cause c) override { break_now(s, c); }
  int descriptor() const override { return -1; }
  bool wants_out() const override { return false; }
  std::string describe() const override { return wire_->name_; }

 private:
  FaultyWire::End& end() { return wire_->end(side_); }
  FaultyWorld& world() { return wire_->world_; }
  Post attempt(Sink&, Time, bool wants_room, const std::function<void()>& send);
  void hand_over(Sink&, FaultyWire::Item);
  void break_now(Sink&, Cause);

  std::shared_ptr<FaultyWire> wire_;
  Side side_;
};

}  // namespace megascale
