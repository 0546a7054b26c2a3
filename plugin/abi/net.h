// NCCL's network-plugin interface, versions 8 to 12, as memory layouts: what lies behind the symbols
// ncclNetPlugin_v8 to ncclNetPlugin_v12. Every size and offset was taken from NCCL's own headers and is
// asserted here (LP64).
//
// A library exports one constant function table per version; NCCL takes the newest that it knows. Everything
// crosses this boundary as plain C: no exceptions, no references, no C++ types.
#pragma once
#include <cstddef>
#include <cstdint>

namespace megascale::abi {

// ncclResult_t. There is no code that means "later": later is Success with a null object.
enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,  // never to be returned by a plugin: NCCL's checks let it through and read garbage
};

enum LogLevel : int {
  kLogNone = 0,
  kLogVersion = 1,
  kLogWarn = 2,
  kLogInfo = 3,
  kLogAbort = 4,
  kLogTrace = 5
};

// Subsystem bits of a log line (NCCL_DEBUG_SUBSYS).
inline constexpr unsigned long kLogInit = 0x1;
inline constexpr unsigned long kLogNet = 0x10;
inline constexpr unsigned long kLogAll = ~0UL;

using LogFunction = void (*)(LogLevel level, unsigned long flags, const char* file, int line,
                             const char* format, ...);

// A plugin's events for NCCL's profiler; `type` is 0 start, 1 stop, 2 update, 3 update and stop.
using ProfilerFunction = Result (*)(void** event, int type, void* parent, int64_t plugin_id, void* data);

inline constexpr size_t kHandleSize = 128;  // of the blob that listen fills and connect reads
inline constexpr int kMaxDevices = 128;     // devices() may not report more
inline constexpr int kMaxRequests = 32;  // receive groups outstanding per connection that a plugin promises
inline constexpr int kSteps = 8;         // of which NCCL uses this many today
inline constexpr size_t kMaxBytesV8 = 1UL << 30;  // NCCL refuses more through a v8 table: sizes are int there
inline constexpr size_t kMaxBytesLimit = 1UL << 40;  // of maxP2pBytes and maxCollBytes, from v9 on
inline void* const kOptionalRecvCompletion = reinterpret_cast<void*>(0x1);  // *request on entry of irecv

// Bits of ptrSupport; kPtrHost and kPtrCuda are also the type of a registration.
enum PtrSupport : int { kPtrHost = 0x1, kPtrCuda = 0x2, kPtrDmaBuf = 0x4 };

enum DeviceType : int { kDeviceHost = 0, kDeviceUnpack = 1 };

struct CommConfig {
  int trafficClass;  // -1: not set
};

// What connect and accept may return for kernels that unpack by themselves; a host plugin leaves the pointer
// null.
struct DeviceHandle {
  DeviceType netDeviceType;
  int netDeviceVersion;
  void* handle;
  size_t size;
  int needsProxyProgress;
};

inline constexpr int kMaxDevicesPerNicV9 = 4;
inline constexpr int kMaxDevicesPerNicV12 = 8;

struct VDevicePropsV9 {  // v9 to v11
  int ndevs;
  int devs[kMaxDevicesPerNicV9];
};

struct VDevicePropsV12 {
  int ndevs;
  int devs[kMaxDevicesPerNicV12];
};

struct NetAttrGroup {
  int32_t maxConcurrentPeers;
  int32_t minConcurrentPeers;
  int32_t maxFlowsPerPeer;
  int32_t minFlowsPerPeer;
};

struct NetAttr {
  NetAttrGroup send;
  NetAttrGroup recv;
  uint32_t op;
  uint32_t algo;
  uint32_t proto;
};

struct PropertiesV8 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int speed;  // Mbit/s
  int port;
  float latency;  // microseconds
  int maxComms;
  int maxRecvs;
  DeviceType netDeviceType;
  int netDeviceVersion;
};

struct PropertiesV9 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  DeviceType netDeviceType;
  int netDeviceVersion;
  VDevicePropsV9 vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
};
using PropertiesV10 = PropertiesV9;

struct PropertiesV11 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  DeviceType netDeviceType;
  int netDeviceVersion;
  VDevicePropsV9 vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
  int maxMultiRequestSize;
};

struct PropertiesV12 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  DeviceType netDeviceType;
  int netDeviceVersion;
  VDevicePropsV12 vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
  int maxMultiRequestSize;
  int16_t railId;   // -1: undefined
  int16_t planeId;  // -1: undefined; different defined planes are never connected
};

// ncclNetPlugin_v8. May be null: regMrDmaBuf, getDeviceMr, irecvConsumed (and later makeVDevice, setNetAttr).
struct NetV8 {
  const char* name;
  Result (*init)(LogFunction log);
  Result (*devices)(int* ndev);
  Result (*getProperties)(int dev, PropertiesV8* props);
  Result (*listen)(int dev, void* handle, void** listenComm);
  Result (*connect)(int dev, void* handle, void** sendComm, DeviceHandle** sendDevComm);
  Result (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  Result (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                        void** mhandle);
  Result (*deregMr)(void* comm, void* mhandle);
  Result (*isend)(void* sendComm, void* data, int size, int tag, void* mhandle, void** request);
  Result (*irecv)(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles, void** request);
  Result (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*closeSend)(void* sendComm);
  Result (*closeRecv)(void* recvComm);
  Result (*closeListen)(void* listenComm);
  Result (*getDeviceMr)(void* comm, void* mhandle, void** dptr);
  Result (*irecvConsumed)(void* recvComm, int n, void* request);
};

// ncclNetPlugin_v9: sizes are size_t, and ports can be merged.
struct NetV9 {
  const char* name;
  Result (*init)(LogFunction log);
  Result (*devices)(int* ndev);
  Result (*getProperties)(int dev, PropertiesV9* props);
  Result (*listen)(int dev, void* handle, void** listenComm);
  Result (*connect)(int dev, void* handle, void** sendComm, DeviceHandle** sendDevComm);
  Result (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  Result (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                        void** mhandle);
  Result (*deregMr)(void* comm, void* mhandle);
  Result (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle, void** request);
  Result (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                  void** request);
  Result (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*closeSend)(void* sendComm);
  Result (*closeRecv)(void* recvComm);
  Result (*closeListen)(void* listenComm);
  Result (*getDeviceMr)(void* comm, void* mhandle, void** dptr);
  Result (*irecvConsumed)(void* recvComm, int n, void* request);
  Result (*makeVDevice)(int* dev, VDevicePropsV9* props);
};

// ncclNetPlugin_v10: a profiler's events, and a communicator's configuration at connect.
struct NetV10 {
  const char* name;
  Result (*init)(LogFunction log, ProfilerFunction profiler);
  Result (*devices)(int* ndev);
  Result (*getProperties)(int dev, PropertiesV10* props);
  Result (*listen)(int dev, void* handle, void** listenComm);
  Result (*connect)(int dev, CommConfig* config, void* handle, void** sendComm, DeviceHandle** sendDevComm);
  Result (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  Result (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                        void** mhandle);
  Result (*deregMr)(void* comm, void* mhandle);
  Result (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle, void* phandle,
                  void** request);
  Result (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                  void** phandles, void** request);
  Result (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*closeSend)(void* sendComm);
  Result (*closeRecv)(void* recvComm);
  Result (*closeListen)(void* listenComm);
  Result (*getDeviceMr)(void* comm, void* mhandle, void** dptr);
  Result (*irecvConsumed)(void* recvComm, int n, void* request);
  Result (*makeVDevice)(int* dev, VDevicePropsV9* props);
};

// ncclNetPlugin_v11: one context per communicator and rank, ended by finalize.
struct NetV11 {
  const char* name;
  Result (*init)(void** ctx, uint64_t commId, CommConfig* config, LogFunction log, ProfilerFunction profiler);
  Result (*devices)(int* ndev);
  Result (*getProperties)(int dev, PropertiesV11* props);
  Result (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  Result (*connect)(void* ctx, int dev, void* handle, void** sendComm, DeviceHandle** sendDevComm);
  Result (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  Result (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                        void** mhandle);
  Result (*deregMr)(void* comm, void* mhandle);
  Result (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle, void* phandle,
                  void** request);
  Result (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                  void** phandles, void** request);
  Result (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*closeSend)(void* sendComm);
  Result (*closeRecv)(void* recvComm);
  Result (*closeListen)(void* listenComm);
  Result (*getDeviceMr)(void* comm, void* mhandle, void** dptr);
  Result (*irecvConsumed)(void* recvComm, int n, void* request);
  Result (*makeVDevice)(int* dev, VDevicePropsV9* props);
  Result (*finalize)(void* ctx);
  Result (*setNetAttr)(void* ctx, NetAttr* attr);
};

// ncclNetPlugin_v12: up to eight ports to a NIC, and the rail and plane of each.
struct NetV12 {
  const char* name;
  Result (*init)(void** ctx, uint64_t commId, CommConfig* config, LogFunction log, ProfilerFunction profiler);
  Result (*devices)(int* ndev);
  Result (*getProperties)(int dev, PropertiesV12* props);
  Result (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  Result (*connect)(void* ctx, int dev, void* handle, void** sendComm, DeviceHandle** sendDevComm);
  Result (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  Result (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                        void** mhandle);
  Result (*deregMr)(void* comm, void* mhandle);
  Result (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle, void* phandle,
                  void** request);
  Result (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                  void** phandles, void** request);
  Result (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*closeSend)(void* sendComm);
  Result (*closeRecv)(void* recvComm);
  Result (*closeListen)(void* listenComm);
  Result (*getDeviceMr)(void* comm, void* mhandle, void** dptr);
  Result (*irecvConsumed)(void* recvComm, int n, void* request);
  Result (*makeVDevice)(int* dev, VDevicePropsV12* props);
  Result (*finalize)(void* ctx);
  Result (*setNetAttr)(void* ctx, NetAttr* attr);
};

static_assert(sizeof(CommConfig) == 4 && sizeof(DeviceHandle) == 32 && sizeof(NetAttr) == 44);
static_assert(offsetof(DeviceHandle, handle) == 8 && offsetof(DeviceHandle, size) == 16);
static_assert(sizeof(VDevicePropsV9) == 20 && sizeof(VDevicePropsV12) == 36);
static_assert(offsetof(NetAttr, recv) == 16 && offsetof(NetAttr, op) == 32);

#define MEGASCALE_ABI_AT(Type, member, offset) static_assert(offsetof(Type, member) == (offset))

#define MEGASCALE_ABI_PROPERTIES_HEAD(Type) \
  MEGASCALE_ABI_AT(Type, name, 0);          \
  MEGASCALE_ABI_AT(Type, pciPath, 8);       \
  MEGASCALE_ABI_AT(Type, guid, 16);         \
  MEGASCALE_ABI_AT(Type, ptrSupport, 24);   \
  MEGASCALE_ABI_AT(Type, regIsGlobal, 28)

#define MEGASCALE_ABI_PROPERTIES_V9_ON(Type)    \
  MEGASCALE_ABI_PROPERTIES_HEAD(Type);          \
  MEGASCALE_ABI_AT(Type, forceFlush, 32);       \
  MEGASCALE_ABI_AT(Type, speed, 36);            \
  MEGASCALE_ABI_AT(Type, port, 40);             \
  MEGASCALE_ABI_AT(Type, latency, 44);          \
  MEGASCALE_ABI_AT(Type, maxComms, 48);         \
  MEGASCALE_ABI_AT(Type, maxRecvs, 52);         \
  MEGASCALE_ABI_AT(Type, netDeviceType, 56);    \
  MEGASCALE_ABI_AT(Type, netDeviceVersion, 60); \
  MEGASCALE_ABI_AT(Type, vProps, 64)

MEGASCALE_ABI_PROPERTIES_HEAD(PropertiesV8);
MEGASCALE_ABI_AT(PropertiesV8, speed, 32);
MEGASCALE_ABI_AT(PropertiesV8, port, 36);
MEGASCALE_ABI_AT(PropertiesV8, latency, 40);
MEGASCALE_ABI_AT(PropertiesV8, maxComms, 44);
MEGASCALE_ABI_AT(PropertiesV8, maxRecvs, 48);
MEGASCALE_ABI_AT(PropertiesV8, netDeviceType, 52);
MEGASCALE_ABI_AT(PropertiesV8, netDeviceVersion, 56);
static_assert(sizeof(PropertiesV8) == 64);

MEGASCALE_ABI_PROPERTIES_V9_ON(PropertiesV9);
MEGASCALE_ABI_AT(PropertiesV9, maxP2pBytes, 88);
MEGASCALE_ABI_AT(PropertiesV9, maxCollBytes, 96);
static_assert(sizeof(PropertiesV9) == 104);

MEGASCALE_ABI_PROPERTIES_V9_ON(PropertiesV11);
MEGASCALE_ABI_AT(PropertiesV11, maxP2pBytes, 88);
MEGASCALE_ABI_AT(PropertiesV11, maxCollBytes, 96);
MEGASCALE_ABI_AT(PropertiesV11, maxMultiRequestSize, 104);
static_assert(sizeof(PropertiesV11) == 112);

MEGASCALE_ABI_PROPERTIES_V9_ON(PropertiesV12);
MEGASCALE_ABI_AT(PropertiesV12, maxP2pBytes, 104);
MEGASCALE_ABI_AT(PropertiesV12, maxCollBytes, 112);
MEGASCALE_ABI_AT(PropertiesV12, maxMultiRequestSize, 120);
MEGASCALE_ABI_AT(PropertiesV12, railId, 124);
MEGASCALE_ABI_AT(PropertiesV12, planeId, 126);
static_assert(sizeof(PropertiesV12) == 128);

// Each member of a table by its place among the pointers that follow the name.
#define MEGASCALE_ABI_SLOT(Table, member, slot) static_assert(offsetof(Table, member) == 8 * (slot))
#define MEGASCALE_ABI_TABLE(Table)             \
  MEGASCALE_ABI_SLOT(Table, name, 0);          \
  MEGASCALE_ABI_SLOT(Table, init, 1);          \
  MEGASCALE_ABI_SLOT(Table, devices, 2);       \
  MEGASCALE_ABI_SLOT(Table, getProperties, 3); \
  MEGASCALE_ABI_SLOT(Table, listen, 4);        \
  MEGASCALE_ABI_SLOT(Table, connect, 5);       \
  MEGASCALE_ABI_SLOT(Table, accept, 6);        \
  MEGASCALE_ABI_SLOT(Table, regMr, 7);         \
  MEGASCALE_ABI_SLOT(Table, regMrDmaBuf, 8);   \
  MEGASCALE_ABI_SLOT(Table, deregMr, 9);       \
  MEGASCALE_ABI_SLOT(Table, isend, 10);        \
  MEGASCALE_ABI_SLOT(Table, irecv, 11);        \
  MEGASCALE_ABI_SLOT(Table, iflush, 12);       \
  MEGASCALE_ABI_SLOT(Table, test, 13);         \
  MEGASCALE_ABI_SLOT(Table, closeSend, 14);    \
  MEGASCALE_ABI_SLOT(Table, closeRecv, 15);    \
  MEGASCALE_ABI_SLOT(Table, closeListen, 16);  \
  MEGASCALE_ABI_SLOT(Table, getDeviceMr, 17);  \
  MEGASCALE_ABI_SLOT(Table, irecvConsumed, 18)

MEGASCALE_ABI_TABLE(NetV8);
static_assert(sizeof(NetV8) == 152);

MEGASCALE_ABI_TABLE(NetV9);
MEGASCALE_ABI_SLOT(NetV9, makeVDevice, 19);
static_assert(sizeof(NetV9) == 160);

MEGASCALE_ABI_TABLE(NetV10);
MEGASCALE_ABI_SLOT(NetV10, makeVDevice, 19);
static_assert(sizeof(NetV10) == 160);

MEGASCALE_ABI_TABLE(NetV11);
MEGASCALE_ABI_SLOT(NetV11, makeVDevice, 19);
MEGASCALE_ABI_SLOT(NetV11, finalize, 20);
MEGASCALE_ABI_SLOT(NetV11, setNetAttr, 21);
static_assert(sizeof(NetV11) == 176);

MEGASCALE_ABI_TABLE(NetV12);
MEGASCALE_ABI_SLOT(NetV12, makeVDevice, 19);
MEGASCALE_ABI_SLOT(NetV12, finalize, 20);
MEGASCALE_ABI_SLOT(NetV12, setNetAttr, 21);
static_assert(sizeof(NetV12) == 176);

#undef MEGASCALE_ABI_AT
#undef MEGASCALE_ABI_PROPERTIES_HEAD
#undef MEGASCALE_ABI_PROPERTIES_V9_ON
#undef MEGASCALE_ABI_SLOT
#undef MEGASCALE_ABI_TABLE

}  // namespace megascale::abi
