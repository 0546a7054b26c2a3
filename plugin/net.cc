#include "plugin/net.h"

#include "transport/base/log.h"

namespace megascale::plugin {
namespace {

struct ListenComm {
  uint64_t listener;
};

// Memory that NCCL registered. A TCP link needs nothing of it but to know which operations touch it.
struct Registration {
  void* data;
  std::size_t size;
};

abi::Result refuse(Code code, const std::string& what) {
  logf(Level::warn, "%s", what.c_str());
  return to_nccl(code);
}

abi::Result no_process(const char* what) {
  return refuse(Code::invalid_usage,
                std::string(what) + " was called without init, or after the last finalize");
}

}  // namespace

abi::Result init(void** context, uint64_t communicator, const abi::CommConfig* config, abi::LogFunction log) {
  if (context) *context = nullptr;
  abi::Result r = Guest::get().enter(log);
  if (r == abi::kSuccess && context)
    *context = new Context{communicator, config ? config->trafficClass : -1};  // config is on NCCL's stack
  return r;
}

// NCCL 2.28 calls it even when init failed, then with null.
abi::Result finalize(void* context) {
  if (!context) return abi::kSuccess;
  // A communicator that died while connecting never closes what it had begun.
  if (Process* p = Guest::get().process()) p->close_owned(context);
  delete static_cast<Context*>(context);
  Guest::get().leave();
  return abi::kSuccess;
}

abi::Result devices(int* n) {
  *n = Guest::get().devices();
  return abi::kSuccess;
}

// ---- connections ----

abi::Result listen(void* context, int device, void* handle, void** listen_comm) {
  *listen_comm = nullptr;
  Process* p = Guest::get().process();
  const Device* d = Guest::get().device(device);
  if (!p) return no_process("listen");
  if (!d)
    return refuse(Code::invalid_argument,
                  "listen on device " + std::to_string(device) + ", which does not exist");
  *listen_comm = new ListenComm{p->listen(d->rails, context, handle)};
  return abi::kSuccess;
}

// Never waits: NCCL calls again, with the same handle, in which the attempt is remembered. Never gives a comm
// together with an error: NCCL would close it twice.
abi::Result connect(void* context, int device, void* handle, void** send_comm, abi::DeviceHandle** offload) {
  *send_comm = nullptr;
  if (offload) *offload = nullptr;
  Process* p = Guest::get().process();
  const Device* d = Guest::get().device(device);
  if (!p) return no_process("connect");
  if (!d)
    return refuse(Code::invalid_argument,
                  "connect from device " + std::to_string(device) + ", which does not exist");
  uint64_t attempt = Handle::attempt(handle);
  if (!attempt) {
    auto h = Handle::read(handle);
    if (!h) return refuse(h.error().code, h.error().message);
    Endpoint* e = p->connect(*h, d->rails, context);
    if (!e)
      return refuse(Code::invalid_usage, "device " + d->name + " and the peer's addresses (" +
                                             h->addresses[0].text() +
                                             ", ...) are not of one IP family; see NCCL_SOCKET_FAMILY");
    Handle::set_attempt(handle, e->id());
    return abi::kSuccess;
  }
  Endpoint* e = p->find(attempt);
  if (!e || !e->sender())
    return refuse(Code::invalid_argument, "connect was called again for an attempt that is over");
  Error error;
  {
    Entered in(*e);
    e->called();
    e->connection().progress(now());
    if (e->connection().state() == Connection::State::connecting) return abi::kSuccess;
    if (e->connection().state() == Connection::State::open) return *send_comm = e, abi::kSuccess;
    error = e->connection().error();
  }
  p->close(e);  // said by the connection itself, in the log
  return to_nccl(error.code);
}

abi::Result accept(void* listen_comm, void** receive_comm, abi::DeviceHandle** offload) {
  *receive_comm = nullptr;
  if (offload) *offload = nullptr;
  Process* p = Guest::get().process();
  if (!p || !listen_comm) return no_process("accept");
  uint64_t listener = static_cast<ListenComm*>(listen_comm)->listener;
  if (Endpoint* e = p->accept(listener)) return *receive_comm = e, abi::kSuccess;
  if (now() - p->accepting_since(listener) > p->settings().connect_timeout)
    return refuse(
        Code::remote,
        "nobody connected within MEGASCALE_CONNECT_TIMEOUT: the rank that was to send to us is gone, or "
        "cannot reach us");
  return abi::kSuccess;
}

abi::Result close(void* comm) {
  Process* p = Guest::get().process();
  if (comm && p) p->close(static_cast<Endpoint*>(comm));  // NCCL closes null after a connect that failed
  return abi::kSuccess;
}

abi::Result close_listen(void* listen_comm) {
  if (!listen_comm) return abi::kSuccess;
  if (Process* p = Guest::get().process()) p->close_listener(static_cast<ListenComm*>(listen_comm)->listener);
  delete static_cast<ListenComm*>(listen_comm);
  return abi::kSuccess;
}

// ---- memory ----

abi::Result reg(void* comm, void* data, std::size_t size, int type, void** mhandle) {
  *mhandle = nullptr;
  if (!comm) return abi::kInvalidArgument;
  if (type != abi::kPtrHost)
    return refuse(Code::invalid_usage,
                  "GPU memory cannot be registered for links over TCP: it has to pass through host memory");
  *mhandle = new Registration{data, size};
  return abi::kSuccess;
}

// Called on abort with operations in flight, and the memory is freed right after: what touches it ends here.
// Never fails, for NCCL would leave the rest of its cleaning undone.
abi::Result dereg(void* comm, void* mhandle) {
  if (!comm || !mhandle) return abi::kSuccess;
  auto* e = static_cast<Endpoint*>(comm);
  {
    Entered in(*e);
    bool touched = e->sender() ? e->sender()->forget(mhandle, now()) : e->receiver()->forget(mhandle, now());
    for (int i = 0; touched && i < 1000 && !e->connection().settled(); i++) e->connection().progress(now());
  }
  delete static_cast<Registration*>(mhandle);
  return abi::kSuccess;
}

// ---- data ----

abi::Result isend(void* comm, void* data, std::size_t size, int, void* mhandle, void** request) {
  *request = nullptr;  // a stale pointer was there; null says "not now"
  auto* e = static_cast<Endpoint*>(comm);
  if (size > Chunk::kLargest)
    return refuse(Code::invalid_argument,
                  "a message of " + std::to_string(size) + " bytes is larger than any may be");
  if (!e->sender()) return refuse(Code::invalid_usage, "isend on a connection that receives");
  IfFree in(*e);
  if (!in) return abi::kSuccess;
  e->called();
  Time t = now();
  Sender& s = *e->sender();
  Request* r = s.post(static_cast<std::byte*>(data), size, mhandle, t);
  *request = r;
  if (!r || s.behind()) s.progress(t);
  bool over = s.state() != Connection::State::open && !r;
  return over ? to_nccl(s.error().code) : abi::kSuccess;
}

// Groups have one member: maxRecvs is 1, for on a stream a message must not wait for another's receive.
abi::Result irecv(void* comm, int n, void* const* data, const std::size_t* sizes, void* const* mhandles,
                  void** request) {
  *request = nullptr;  // null, a stale pointer or NCCL's hint that completion is optional was there
  if (n != 1)
    return refuse(Code::invalid_argument, "a group of " + std::to_string(n) + " receives, but maxRecvs is 1");
  auto* e = static_cast<Endpoint*>(comm);
  if (!e->receiver()) return refuse(Code::invalid_usage, "irecv on a connection that sends");
  IfFree in(*e);
  if (!in) return abi::kSuccess;
  e->called();
  Time t = now();
  Receiver& v = *e->receiver();
  Request* r = v.post(static_cast<std::byte*>(data[0]), sizes[0], mhandles ? mhandles[0] : nullptr, t);
  *request = r;
  if (!r) v.progress(t);  // who only asks again would keep the thread from looking
  bool over = !r && (v.state() == Connection::State::failed || v.state() == Connection::State::closed);
  return over ? to_nccl(v.error().code) : abi::kSuccess;
}

// Host memory needs no flush: null means that there is nothing to wait for.
abi::Result iflush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return abi::kSuccess;
}

// NCCL tests the oldest request only, so whatever can move on this connection moves here.
abi::Result test(void* request, int* done, int* sizes) {
  *done = 0;
  auto* r = static_cast<Request*>(request);
  auto* e = static_cast<Endpoint*>(r->connection->holder);
  IfFree in(*e);
  if (!in) return abi::kSuccess;
  e->called();
  Connection& c = *r->connection;
  if (!r->done) c.progress(now());
  abi::Result result = abi::kSuccess;
  if (r->done) {
    *done = 1;
    if (sizes) *sizes = static_cast<int>(r->size);
    r->busy = false;
  } else if (c.state() == Connection::State::failed || c.state() == Connection::State::closed) {
    result = to_nccl(c.error().code);
  }
  return result;
}

}  // namespace megascale::plugin
