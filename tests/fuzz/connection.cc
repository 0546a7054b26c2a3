// Fuzzes a Sender and a Receiver with a peer that says and sends anything: records, chunk headers, dials that
// succeed or fail, links that break and fences that come when they like. The input is a list of steps.
// Receives must complete in order, what completed stays complete, and a sanitizer watches the memory beside
// the buffers.
#include <cstring>
#include <deque>
#include <memory>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/transport/rails/scripted_link.h"
#include "transport/base/log.h"
#include "transport/rails/receiver.h"
#include "transport/rails/sender.h"

using namespace megascale;

namespace {

// The input, read as numbers; zeros when it is used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t byte() { return left_ ? (left_--, *data_++) : uint8_t{0}; }
  uint32_t two_bytes() { return byte() | static_cast<uint32_t>(byte()) << 8; }
  ConstBytes bytes(size_t n) {
    n = std::min(n, left_);
    ConstBytes b(reinterpret_cast<const std::byte*>(data_), n);
    data_ += n, left_ -= n;
    return b;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

class Both {
 public:
  Both()
      : sender_(options(), "fuzzed", "peer", sends_, {{"rail0", "rail0"}, {"rail1", "rail1"}}),
        receiver_(options(), "fuzzed", "peer", receives_) {}

  void step(Input& in) {
    const uint8_t what = in.byte();
    const bool here = what & 0x80;  // the sender's side
    switch (what % 10) {
      case 0:
      case 1:
        hear(here, in);
        break;
      case 2:
        chunk(in);
        break;
      case 3:
        receive(in.two_bytes() % 9000);
        break;
      case 4:
        send(in.two_bytes() % 9000);
        break;
      case 5:
        pass(Duration(in.byte()) * 4'000'000);
        break;
      case 6:
        break_link(here, in);
        break;
      case 7:
        for (auto* links : {&there_, &here_})
          for (auto& l : *links) l->fence_confirmed = l->fence_asked;
        pass(0ns);
        break;
      case 8:
        answer_dial(in.byte());
        break;
      case 9:
        forward();
    }
    look();
  }

 private:
  using Links = std::vector<std::shared_ptr<Script>>;

  static ConnectionOptions options() {
    ConnectionOptions o;
    o.smallest_chunk = 128;
    o.flap_timeout = 5s;
    return o;
  }
  Sink& sink(bool here) { return here ? static_cast<Sink&>(sender_) : receiver_; }
  Script* pick(Links& links, uint8_t which) {
    if (links.empty()) return nullptr;
    Script* s = links[which % links.size()].get();
    return s->link ? s : nullptr;
  }
  void hear(bool here, Input& in) {
    Script* s = pick(here ? here_ : there_, in.byte());
    ConstBytes record = in.bytes(in.byte());
    if (s) sink(here).heard(*s->link, record);
  }
  void chunk(Input& in) {
    Script* s = pick(there_, in.byte());
    Chunk c{
        .message = in.byte(), .total = in.two_bytes(), .chunk_bytes = in.byte() * 128u, .index = in.byte()};
    std::byte* to = s ? sink(false).land(*s->link, c) : nullptr;
    if (!to) return;
    must(c.plausible(), "a chunk landed that no message can have");
    if (c.bytes()) memset(to, 1, c.bytes());
    sink(false).placed(*s->link, c);
  }
  // Allocated to the byte, so that a sanitizer sees a write beside it.
  void receive(Bytes n) {
    if (received_.size() > 300) return;
    memory_.push_back(std::make_unique<std::byte[]>(n));
    if (Request* r = receiver_.post(memory_.back().get(), n, nullptr, now_)) received_.push_back(r);
  }
  void send(Bytes n) {
    memory_.push_back(std::make_unique<std::byte[]>(n));
    if (Request* r = sender_.post(memory_.back().get(), n, nullptr, now_)) sent_.push_back(r);
  }
  void pass(Duration d) {
    now_ += d;
    sender_.progress(now_);
    receiver_.progress(now_);
  }
  void break_link(bool here, Input& in) {
    Script* s = pick(here ? here_ : there_, in.byte());
    if (s) sink(here).broke(*s->link, static_cast<Cause>(in.byte() % 9));
  }
  void answer_dial(uint8_t how) {
    if (answered_ == sends_.dials.size()) return;
    auto [path, epoch, when] = sends_.dials[answered_++];
    if (how & 1) {
      there_.push_back(std::make_shared<Script>());
      receiver_.accepted(std::make_unique<ScriptedLink>(there_.back(), "there"), epoch, {"rail0", "rail0"},
                         now_);
    }
    if (how & 2) {
      here_.push_back(std::make_shared<Script>());
      sender_.dialled(path, epoch, std::make_unique<ScriptedLink>(here_.back(), "here"), now_);
    } else {
      sender_.dial_failed(path, epoch, Cause::refused, "no", now_);
    }
  }
  // What both said last reaches the other's newest link, as between honest ends.
  void forward() {
    if (here_.empty() || there_.empty()) return;
    auto carry = [&](Script& from, Script& to, bool here) {
      if (from.said.empty() || !to.link) return;
      auto record = from.said.back();
      sink(here).heard(*to.link, record);
    };
    carry(*here_.back(), *there_.back(), false);
    carry(*there_.back(), *here_.back(), true);
    pass(1us);
  }
  void look() {
    while (!received_.empty() && received_.front()->done) {
      received_.front()->busy = false;
      received_.pop_front();
    }
    for (Request* r : received_) must(!r->done, "a receive completed before an earlier one");
    for (; !sent_.empty() && sent_.front()->done; sent_.pop_front()) sent_.front()->busy = false;
  }

  Time now_{1s};
  ScriptedDialer sends_, receives_;
  Links here_, there_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::deque<Request*> received_, sent_;
  size_t answered_ = 0;
  Sender sender_;
  Receiver receiver_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  log_to([](Level, const char*) {});
  Input in(data, size);
  Both both;
  while (!in.empty()) both.step(in);
  return 0;
}
