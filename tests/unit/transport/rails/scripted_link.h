// A link that does nothing by itself: it notes what is put and said, and the test plays the other end by
// calling the connection's Sink.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/link.h"
#include "transport/rails/wire.h"

namespace megascale {

// What one link saw, and how it answers. Outlives the link.
struct Script {
  struct Put {
    Chunk chunk;
    const std::byte* data;
  };
  Link* link = nullptr;  // null once it is destroyed
  std::vector<Put> puts;
  std::vector<std::vector<std::byte>> said;
  std::size_t room = 1000;
  bool mute = false;  // say() has no room
  bool fence_asked = false, fence_confirmed = false, broken = false;
  std::function<void(Sink&)> inside_put;  // what the other end says meanwhile

  int said_of(wire::Kind k) const {
    int n = 0;
    for (auto& r : said) n += static_cast<wire::Kind>(r[0]) == k;
    return n;
  }
  const std::vector<std::byte>* last(wire::Kind k) const {
    for (auto r = said.rbegin(); r != said.rend(); ++r)
      if (static_cast<wire::Kind>((*r)[0]) == k) return &*r;
    return nullptr;
  }
};

class ScriptedLink final : public Link {
 public:
  ScriptedLink(std::shared_ptr<Script> s, std::string name) : s_(std::move(s)), name_(std::move(name)) {
    s_->link = this;
  }
  ~ScriptedLink() override { s_->link = nullptr; }
  bool has_room(Time) override { return !s_->fence_asked && s_->puts.size() < s_->room; }
  Post put(Sink& sink, const Chunk& c, const std::byte* data, Time) override {
    if (auto f = std::exchange(s_->inside_put, nullptr)) f(sink);
    s_->puts.push_back({c, data});
    return Post::ok;
  }
  Post say(Sink&, ConstBytes b, Time) override {
    if (s_->mute) return Post::again;
    s_->said.emplace_back(b.begin(), b.end());
    return Post::ok;
  }
  void poll(Sink& sink, Time) override {
    if (!s_->fence_asked || !std::exchange(s_->fence_confirmed, false)) return;
    sink.fenced(*this);
  }
  void check(Sink&, Time) override {}
  void fence() override { s_->fence_asked = true; }
  void lost(Sink& sink, Cause c) override { sink.broke(*this, c); }
  int descriptor() const override { return -1; }
  bool wants_out() const override { return false; }
  std::string describe() const override { return name_; }

 private:
  std::shared_ptr<Script> s_;
  std::string name_;
};

// Notes what is asked; the test answers.
struct ScriptedDialer final : Dialer {
  struct Dial {
    int path;
    Epoch epoch;
    Time when;
  };
  std::vector<Dial> dials;
  std::vector<Epoch> given_up;
  int peer_checks = 0;
  Time now{};  // set by the test

  void dial(int path, Epoch e) override { dials.push_back({path, e, now}); }
  void give_up(Epoch e) override { given_up.push_back(e); }
  void check_peer() override { peer_checks++; }
};

}  // namespace megascale
