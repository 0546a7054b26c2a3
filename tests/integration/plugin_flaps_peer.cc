// One end of a connection through the plugin's raw table, for tests/integration/plugin_flaps: the sender
// sends numbered messages at a steady pace for so many seconds, the receiver checks every byte of each.
//
//   plugin_flaps_peer send|receive PLUGIN HANDLE_FILE SECONDS
//
// Says one JSON object a line on standard output; the plugin's own lines go to standard error. Status 0: all
// went well; 1: called or set up wrongly; 2: wrong bytes; 3: the plugin returned an error.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugin/abi/net.h"

namespace {

using namespace megascale;

constexpr std::size_t kBytes = 256 << 10;
constexpr int kDepth = 8;
constexpr long kPace = 4'000'000;  // ns between two messages
// Messages of nothing are the end, as many as a receiver has posted ahead: so that it closes with none under
// way.
constexpr uint64_t kEnds = kDepth;

long mono() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void log_line(abi::LogLevel, unsigned long, const char*, int, const char* format, ...) {
  char text[4096];
  va_list a;
  va_start(a, format);
  vsnprintf(text, sizeof text, format, a);
  va_end(a);
  fprintf(stderr, "%s\n", text);
}

[[noreturn]] void stop(int status, const char* what, int code) {
  printf("{\"what\": \"error\", \"in\": \"%s\", \"code\": %d, \"mono_ns\": %ld}\n", what, code, mono());
  fflush(nullptr);
  _exit(status);
}

void must(abi::Result r, const char* what) {
  if (r != abi::kSuccess) stop(3, what, r);
}

uint64_t word(uint64_t message, uint64_t at) {
  return (message * 0x9e3779b97f4a7c15 + at) * 0xbf58476d1ce4e5b9;
}

void fill(std::vector<uint64_t>& v, uint64_t message) {
  for (std::size_t i = 0; i < v.size(); i++) v[i] = word(message, i);
}

bool right(const std::vector<uint64_t>& v, uint64_t message) {
  for (std::size_t i = 0; i < v.size(); i++)
    if (v[i] != word(message, i)) return false;
  return true;
}

struct Ring {
  std::vector<uint64_t> data[kDepth];
  void* requests[kDepth] = {};
  uint64_t posted = 0, done = 0;
  Ring() {
    for (auto& d : data) d.resize(kBytes / 8);
  }
};

void send_all(const abi::NetV12* net, void* comm, double seconds) {
  Ring r;
  uint64_t ends = 0;
  long begun = mono(), end = begun + static_cast<long>(seconds * 1e9);
  while (ends < kEnds || r.done < r.posted) {
    bool over = mono() >= end, due = over || mono() >= begun + static_cast<long>(r.posted) * kPace;
    if (ends < kEnds && r.posted < r.done + kDepth && due) {
      auto& data = r.data[r.posted % kDepth];
      if (!over) fill(data, r.posted);
      void*& q = r.requests[r.posted % kDepth];
      must(net->isend(comm, data.data(), over ? 0 : kBytes, 0, nullptr, nullptr, &q), "isend");
      if (q) {
        r.posted++;
        ends += over;
      }
    }
    int done = 0;
    if (r.done < r.posted) must(net->test(r.requests[r.done % kDepth], &done, nullptr), "test");
    r.done += static_cast<uint64_t>(done);
    if (!done) usleep(100);
  }
  printf("{\"what\": \"sent\", \"messages\": %lu}\n", r.done - kEnds);
}

bool receive_all(const abi::NetV12* net, void* comm) {
  Ring r;
  uint64_t wrong = 0, ends = 0, most = ~0ull;
  long last = mono(), longest = 0;
  while (ends < kEnds && !wrong) {
    if (r.posted < r.done + kDepth && r.posted < most) {
      auto& data = r.data[r.posted % kDepth];
      void *to = data.data(), *mh = nullptr, *&q = r.requests[r.posted % kDepth];
      std::size_t n = kBytes;
      int tag = 0;
      q = nullptr;
      must(net->irecv(comm, 1, &to, &n, &tag, &mh, nullptr, &q), "irecv");
      if (q) r.posted++;
    }
    int done = 0, size = 0;
    if (r.done < r.posted) must(net->test(r.requests[r.done % kDepth], &done, &size), "test");
    if (!done) {
      usleep(100);
      continue;
    }
    longest = std::max(longest, mono() - last);
    last = mono();
    if (size == 0) {
      if (!ends++) most = r.done + kEnds;
    } else {
      wrong += size != static_cast<int>(kBytes) || ends || !right(r.data[r.done % kDepth], r.done);
    }
    r.done++;
  }
  printf("{\"what\": \"received\", \"messages\": %lu, \"wrong\": %lu, \"longest_gap_ms\": %ld}\n",
         r.done - ends, wrong, longest / 1'000'000);
  return !wrong;
}

void put_handle(const std::string& file, const unsigned char* handle) {
  FILE* f = fopen((file + ".new").c_str(), "w");
  bool ok = f && fwrite(handle, abi::kHandleSize, 1, f) == 1;
  if (!f || fclose(f) || !ok || rename((file + ".new").c_str(), file.c_str()))
    stop(1, "writing the handle", 0);
}

void get_handle(const std::string& file, unsigned char* handle) {
  for (int i = 0; i < 6000; i++, usleep(10'000)) {
    FILE* f = fopen(file.c_str(), "r");
    if (!f) continue;
    bool ok = fread(handle, abi::kHandleSize, 1, f) == 1;
    fclose(f);
    if (ok) return;
  }
  stop(1, "waiting for the handle", 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5)
    return fprintf(stderr, "usage: plugin_flaps_peer send|receive PLUGIN HANDLE_FILE SECONDS\n"), 1;
  bool sends = !strcmp(argv[1], "send");
  setvbuf(stdout, nullptr, _IOLBF, 0);
  void* library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  auto* net = static_cast<const abi::NetV12*>(dlsym(library, "ncclNetPlugin_v12"));
  if (!net) return fprintf(stderr, "%s\n", dlerror()), 1;
  void *context = nullptr, *listening = nullptr, *comm = nullptr;
  must(net->init(&context, 1, nullptr, log_line, nullptr), "init");
  unsigned char handle[abi::kHandleSize] = {};
  abi::DeviceHandle* offload = nullptr;
  if (sends) {
    get_handle(argv[3], handle);
    while (!comm) must(net->connect(context, 0, handle, &comm, &offload), "connect"), usleep(100);
  } else {
    must(net->listen(context, 0, handle, &listening), "listen");
    put_handle(argv[3], handle);
    while (!comm) must(net->accept(listening, &comm, &offload), "accept"), usleep(100);
  }
  printf("{\"what\": \"going\", \"mono_ns\": %ld}\n", mono());
  bool good = true;
  if (sends) send_all(net, comm, atof(argv[4]));
  else good = receive_all(net, comm);
  must(sends ? net->closeSend(comm) : net->closeRecv(comm), "close");
  must(net->closeListen(listening), "closeListen");
  must(net->finalize(context), "finalize");
  return good ? 0 : 2;
}
