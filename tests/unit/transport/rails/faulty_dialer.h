// Makes faulty links between a Sender and a Receiver in virtual time: a dial takes its time, fails, or
// succeeds at one end only; an answer may come although the dial was given up.
#pragma once
#include <memory>
#include <vector>

#include "tests/unit/transport/rails/faulty_link.h"
#include "transport/rails/receiver.h"
#include "transport/rails/sender.h"

namespace megascale {

struct DialFaults {
  double fail = 0;         // no link at all
  double only_there = 0;   // the receiver gets one, the sender hears that it failed
  double only_here = 0;    // the other way about
  double late_answer = 0;  // one that was given up is answered all the same
  Duration slowest = 1ms, deadline = 300ms;
};

class FaultyDialer final : public Dialer {
 public:
  FaultyDialer(FaultyWorld&, std::vector<Path>);
  ~FaultyDialer() override;
  void connect(Sender& s, Receiver& r) { sender_ = &s, receiver_ = &r; }

  void dial(int path, Epoch) override;
  void give_up(Epoch) override;
  void check_peer() override { peer_checks++; }

  FaultyPath& path(std::size_t i) { return *paths_[i]; }
  const std::vector<Path>& names() const { return names_; }
  void path_down(std::size_t);
  void path_up(std::size_t);
  // The wires made so far that somebody uses, the newest last.
  std::vector<std::shared_ptr<FaultyWire>> wires();

  DialFaults faults;
  std::vector<std::pair<int, Epoch>> dials;  // that were asked for
  std::vector<Time> dial_times;
  int peer_checks = 0;

 private:
  void answer(std::size_t path, Epoch);
  void give_to_sender(std::size_t path, Epoch, std::shared_ptr<FaultyWire>, Duration);
  void give_to_receiver(std::size_t path, Epoch, std::shared_ptr<FaultyWire>, Duration);
  void fail(std::size_t path, Epoch, Cause, Duration);
  bool given_up(Epoch) const;

  FaultyWorld& world_;
  std::vector<Path> names_;
  std::vector<std::shared_ptr<FaultyPath>> paths_;
  std::vector<std::weak_ptr<FaultyWire>> wires_;
  std::vector<Epoch> given_up_;
  Sender* sender_ = nullptr;
  Receiver* receiver_ = nullptr;
};

}  // namespace megascale
