// ncclNetPlugin_v8 to v12: one implementation behind a thin table a version. No C++ exception crosses this
// boundary.
#include "plugin/net.h"
#include "transport/base/log.h"

namespace megascale::plugin {
namespace {

using abi::Result;

// Makes a plain C function of F: what it throws is said and becomes a code.
template <auto F>
struct Guarded;
template <class... A, Result (*F)(A...)>
struct Guarded<F> {
  static Result call(A... a) {
    try {
      return F(a...);
    } catch (const std::exception& x) {
      logf(Level::warn, "internal error: %s", x.what());
    } catch (...) {
      logf(Level::warn, "internal error");
    }
    return abi::kInternalError;
  }
};
template <auto F>
inline constexpr auto guarded = &Guarded<F>::call;

// ---- what differs between versions ----

// NCCL passes uninitialised memory: every field is set.
template <class P>
Result properties(int device, P* p) {
  const Device* d = Guest::get().device(device);
  if (!d) return abi::kInvalidArgument;
  *p = P{};
  p->name = const_cast<char*>(d->name.c_str());
  p->pciPath = d->pci_path.empty() ? nullptr : const_cast<char*>(d->pci_path.c_str());
  p->guid = d->guid;
  p->ptrSupport = abi::kPtrHost;
  p->regIsGlobal = 0;
  p->speed = d->megabits;
  p->port = 1;
  p->latency = 0;
  p->maxComms = 1 << 16;
  p->maxRecvs = 1;
  p->netDeviceType = abi::kDeviceHost;
  p->netDeviceVersion = 0;
  if constexpr (requires { p->vProps; }) {
    p->forceFlush = 0;
    p->maxP2pBytes = p->maxCollBytes = Chunk::kLargest;
    int room = static_cast<int>(std::size(p->vProps.devs));
    p->vProps.ndevs = std::min(static_cast<int>(d->rails.size()), room);
    for (int i = 0; i < p->vProps.ndevs; i++) p->vProps.devs[i] = d->rails[static_cast<std::size_t>(i)];
  }
  if constexpr (requires { p->maxMultiRequestSize; }) p->maxMultiRequestSize = 1;
  if constexpr (requires { p->railId; }) {
    p->railId = static_cast<int16_t>(d->rail_id);
    p->planeId = -1;
  }
  return abi::kSuccess;
}

// Before v11 nobody says when a communicator ends: what was begun stays until the process does.
Result init_v8(abi::LogFunction log) { return init(nullptr, 0, nullptr, log); }
Result init_v10(abi::LogFunction log, abi::ProfilerFunction) { return init(nullptr, 0, nullptr, log); }
Result init_v11(void** context, uint64_t id, abi::CommConfig* config, abi::LogFunction log,
                abi::ProfilerFunction) {
  return init(context, id, config, log);
}
Result listen_v8(int device, void* handle, void** comm) { return listen(nullptr, device, handle, comm); }
Result connect_v8(int device, void* handle, void** comm, abi::DeviceHandle** o) {
  return connect(nullptr, device, handle, comm, o);
}
Result connect_v10(int device, abi::CommConfig*, void* handle, void** comm, abi::DeviceHandle** o) {
  return connect(nullptr, device, handle, comm, o);
}
Result isend_v8(void* comm, void* data, int size, int tag, void* mhandle, void** request) {
  *request = nullptr;
  return size < 0 ? abi::kInvalidArgument
                  : isend(comm, data, static_cast<std::size_t>(size), tag, mhandle, request);
}
Result isend_v10(void* comm, void* data, std::size_t size, int tag, void* mhandle, void*, void** request) {
  return isend(comm, data, size, tag, mhandle, request);
}
Result irecv_v8(void* comm, int n, void** data, int* sizes, int*, void** mhandles, void** request) {
  *request = nullptr;
  if (n != 1 || sizes[0] < 0) return abi::kInvalidArgument;
  std::size_t size = static_cast<std::size_t>(sizes[0]);
  return irecv(comm, n, data, &size, mhandles, request);
}
Result irecv_v9(void* comm, int n, void** data, std::size_t* sizes, int*, void** mhandles, void** request) {
  return irecv(comm, n, data, sizes, mhandles, request);
}
Result irecv_v10(void* comm, int n, void** data, std::size_t* sizes, int*, void** mhandles, void**,
                 void** request) {
  return irecv(comm, n, data, sizes, mhandles, request);
}
template <class V>
Result merge(int* device, V* members) {
  if (members->ndevs < 1 || members->ndevs > static_cast<int>(std::size(members->devs)))
    return abi::kInvalidArgument;
  return Guest::get().merge(device, members->devs, members->ndevs);
}
Result set_attributes(void*, abi::NetAttr*) { return abi::kSuccess; }  // hints that a TCP link has no use for

// ---- the tables ----

constexpr const char* kName = "Megascale";

// Members that are the same in every version, in order, between those that are not.
#define MEGASCALE_REGISTRATION .regMr = guarded<reg>, .regMrDmaBuf = nullptr, .deregMr = guarded<dereg>
#define MEGASCALE_END                                                                        \
  .iflush = guarded<iflush>, .test = guarded<test>, .closeSend = guarded<close>,             \
  .closeRecv = guarded<close>, .closeListen = guarded<close_listen>, .getDeviceMr = nullptr, \
  .irecvConsumed = nullptr

}  // namespace
}  // namespace megascale::plugin

#define MEGASCALE_EXPORT extern "C" __attribute__((visibility("default"))) const

namespace megascale::plugin {

MEGASCALE_EXPORT abi::NetV8 ncclNetPlugin_v8 = {.name = kName,
                                                .init = guarded<init_v8>,
                                                .devices = guarded<devices>,
                                                .getProperties = guarded<properties<abi::PropertiesV8>>,
                                                .listen = guarded<listen_v8>,
                                                .connect = guarded<connect_v8>,
                                                .accept = guarded<accept>,
                                                MEGASCALE_REGISTRATION,
                                                .isend = guarded<isend_v8>,
                                                .irecv = guarded<irecv_v8>,
                                                MEGASCALE_END};

MEGASCALE_EXPORT abi::NetV9 ncclNetPlugin_v9 = {.name = kName,
                                                .init = guarded<init_v8>,
                                                .devices = guarded<devices>,
                                                .getProperties = guarded<properties<abi::PropertiesV9>>,
                                                .listen = guarded<listen_v8>,
                                                .connect = guarded<connect_v8>,
                                                .accept = guarded<accept>,
                                                MEGASCALE_REGISTRATION,
                                                .isend = guarded<isend>,
                                                .irecv = guarded<irecv_v9>,
                                                MEGASCALE_END,
                                                .makeVDevice = guarded<merge<abi::VDevicePropsV9>>};

MEGASCALE_EXPORT abi::NetV10 ncclNetPlugin_v10 = {.name = kName,
                                                  .init = guarded<init_v10>,
                                                  .devices = guarded<devices>,
                                                  .getProperties = guarded<properties<abi::PropertiesV10>>,
                                                  .listen = guarded<listen_v8>,
                                                  .connect = guarded<connect_v10>,
                                                  .accept = guarded<accept>,
                                                  MEGASCALE_REGISTRATION,
                                                  .isend = guarded<isend_v10>,
                                                  .irecv = guarded<irecv_v10>,
                                                  MEGASCALE_END,
                                                  .makeVDevice = guarded<merge<abi::VDevicePropsV9>>};

MEGASCALE_EXPORT abi::NetV11 ncclNetPlugin_v11 = {.name = kName,
                                                  .init = guarded<init_v11>,
                                                  .devices = guarded<devices>,
                                                  .getProperties = guarded<properties<abi::PropertiesV11>>,
                                                  .listen = guarded<listen>,
                                                  .connect = guarded<connect>,
                                                  .accept = guarded<accept>,
                                                  MEGASCALE_REGISTRATION,
                                                  .isend = guarded<isend_v10>,
                                                  .irecv = guarded<irecv_v10>,
                                                  MEGASCALE_END,
                                                  .makeVDevice = guarded<merge<abi::VDevicePropsV9>>,
                                                  .finalize = guarded<finalize>,
                                                  .setNetAttr = guarded<set_attributes>};

MEGASCALE_EXPORT abi::NetV12 ncclNetPlugin_v12 = {.name = kName,
                                                  .init = guarded<init_v11>,
                                                  .devices = guarded<devices>,
                                                  .getProperties = guarded<properties<abi::PropertiesV12>>,
                                                  .listen = guarded<listen>,
                                                  .connect = guarded<connect>,
                                                  .accept = guarded<accept>,
                                                  MEGASCALE_REGISTRATION,
                                                  .isend = guarded<isend_v10>,
                                                  .irecv = guarded<irecv_v10>,
                                                  MEGASCALE_END,
                                                  .makeVDevice = guarded<merge<abi::VDevicePropsV12>>,
                                                  .finalize = guarded<finalize>,
                                                  .setNetAttr = guarded<set_attributes>};

}  // namespace megascale::plugin
