// The same measurements through a plugin's ncclNet interface, as NCCL drives it.
#include <cstring>
#include <stdexcept>

#include "plugin/host/loader.h"
#include "tests/bench/pair.h"

namespace megascale::bench {
namespace {

constexpr int kWindow = 8;  // NCCL_STEPS

void must(abi::Result r, const char* what) {
  if (r != abi::kSuccess) throw std::runtime_error(std::string(what) + " failed with " + std::to_string(r));
}

// One connection and its buffers.
struct Comm {
  host::Net* net = nullptr;
  void* comm = nullptr;
  bool sends = false;
  std::vector<std::vector<char>> buffers;
  std::vector<void*> regions;
  void* requests[kWindow]{};
  std::size_t posted = 0, done = 0;

  void make(host::NetContext& n, const Exchange& x, bool sender, std::size_t message, int count) {
    net = &n.net();
    sends = sender;
    char handle[abi::kHandleSize]{};
    void* listener = nullptr;
    if (sender) {
      x.hear(handle, sizeof handle);
      while (!comm) must(net->connect(n.context(), 0, handle, &comm), "connect");
    } else {
      must(net->listen(n.context(), 0, handle, &listener), "listen");
      x.tell(handle, sizeof handle);
      while (!comm) must(net->accept(listener, &comm), "accept");
      must(net->close_listen(listener), "closeListen");
    }
    for (int i = 0; i < count; i++) {
      buffers.emplace_back(message, static_cast<char>(i + 1));
      void* region = nullptr;
      must(net->reg(comm, buffers.back().data(), message, abi::kPtrHost, &region), "regMr");
      regions.push_back(region);
    }
  }

  bool post() {
    std::size_t i = posted % kWindow, b = posted % buffers.size();
    void* data = buffers[b].data();
    std::size_t size = buffers[b].size();
    int tag = 0;
    if (sends) must(net->isend(comm, data, size, tag, regions[b], &requests[i]), "isend");
    else must(net->irecv(comm, 1, &data, &size, &tag, &regions[b], &requests[i]), "irecv");
    if (!requests[i]) return false;
    posted++;
    return true;
  }

  bool test_oldest() {
    int is_done = 0, size = 0;
    must(net->test(requests[done % kWindow], &is_done, &size), "test");
    done += static_cast<std::size_t>(is_done != 0);
    return is_done != 0;
  }

  void finish() {
    for (void* r : regions) must(net->dereg(comm, r), "deregMr");
    must(sends ? net->close_send(comm) : net->close_receive(comm), "close");
  }
};

}  // namespace

Side plugin_stream(const std::string& plugin, std::size_t total, std::size_t message, int connections,
                   bool sends) {
  return [=](const Exchange& x) {
    auto net = host::attach(plugin, 1);
    std::vector<Comm> comms(static_cast<std::size_t>(connections));
    for (auto& c : comms) c.make(*net, x, sends, message, kWindow);
    std::size_t count = total / message / comms.size();
    x.meet();
    Cost cost;
    cost.began = seconds_now();
    double cpu = cpu_seconds();
    for (std::size_t finished = 0; finished < comms.size();) {
      finished = 0;
      for (auto& c : comms) {
        while (c.posted < count && c.posted - c.done < kWindow && c.post()) {
        }
        if (c.done < c.posted) c.test_oldest();
        finished += c.done == count;
      }
    }
    cost.cpu = cpu_seconds() - cpu;
    cost.ended = seconds_now();
    x.meet();
    for (auto& c : comms) c.finish();
    return cost;
  };
}

Side plugin_ping(const std::string& plugin, int rounds, std::size_t bytes, bool first) {
  return [=](const Exchange& x) {
    auto net = host::attach(plugin, 1);
    Comm a, b;  // there, and back
    a.make(*net, x, first, bytes, 1);
    b.make(*net, x, !first, bytes, 1);
    Comm &out = first ? a : b, &in = first ? b : a;
    x.meet();
    Cost c;
    c.began = seconds_now();
    double cpu = cpu_seconds();
    auto send = [&] {
      while (!out.post()) {
      }
      while (!out.test_oldest()) {
      }
    };
    auto receive = [&] {
      while (!in.test_oldest()) {
      }
    };
    for (int i = 0; i < rounds; i++) {
      while (!in.post()) {
      }
      double t = seconds_now();
      if (first) send();
      receive();
      if (first) c.samples.push_back((seconds_now() - t) / 2);
      else send();
    }
    c.cpu = cpu_seconds() - cpu;
    c.ended = seconds_now();
    x.meet();
    a.finish();
    b.finish();
    return c;
  };
}

}  // namespace megascale::bench
