#include <cstring>
#include <mutex>
#include <stdexcept>
#include <type_traits>

#include "plugin/host/log.h"
#include "plugin/host/net.h"

namespace megascale::host {
namespace {

template <class Table>
struct TableTraits;
template <>
struct TableTraits<abi::NetV8> {
  static constexpr int version = 8;
  using Properties = abi::PropertiesV8;
};
template <>
struct TableTraits<abi::NetV9> {
  static constexpr int version = 9;
  using Properties = abi::PropertiesV9;
};
template <>
struct TableTraits<abi::NetV10> {
  static constexpr int version = 10;
  using Properties = abi::PropertiesV10;
};
template <>
struct TableTraits<abi::NetV11> {
  static constexpr int version = 11;
  using Properties = abi::PropertiesV11;
};
template <>
struct TableTraits<abi::NetV12> {
  static constexpr int version = 12;
  using Properties = abi::PropertiesV12;
};

constexpr size_t kMaxBytesOld = abi::kMaxBytesV8;  // maxP2pBytes and maxCollBytes, which v8 does not state

// Fields that every version has, and those that the version has not as NCCL's shims fill them.
template <class Properties>
void widen(const Properties& from, int device, abi::PropertiesV12* to) {
  *to = abi::PropertiesV12{};
  to->name = from.name;
  to->pciPath = from.pciPath;
  to->guid = from.guid;
  to->ptrSupport = from.ptrSupport;
  to->regIsGlobal = from.regIsGlobal;
  to->speed = from.speed;
  to->port = from.port;
  to->latency = from.latency;
  to->maxComms = from.maxComms;
  to->maxRecvs = from.maxRecvs;
  to->netDeviceType = from.netDeviceType;
  to->netDeviceVersion = from.netDeviceVersion;
  to->vProps.ndevs = 1;
  to->vProps.devs[0] = device;
  to->maxP2pBytes = to->maxCollBytes = kMaxBytesOld;
  to->maxMultiRequestSize = 1;
  to->railId = to->planeId = -1;
  if constexpr (!std::is_same_v<Properties, abi::PropertiesV8>) {
    to->forceFlush = from.forceFlush;
    constexpr int places = std::extent_v<decltype(from.vProps.devs)>;
    to->vProps.ndevs = from.vProps.ndevs < 0 || from.vProps.ndevs > places ? 0 : from.vProps.ndevs;
    for (int i = 0; i < to->vProps.ndevs; ++i) to->vProps.devs[i] = from.vProps.devs[i];
    to->maxP2pBytes = from.maxP2pBytes;
    to->maxCollBytes = from.maxCollBytes;
  }
  if constexpr (std::is_same_v<Properties, abi::PropertiesV12>) {
    to->railId = from.railId;
    to->planeId = from.planeId;
  }
}

template <class Table>
class TableNet final : public Net {
  static constexpr int kVersion = TableTraits<Table>::version;
  using Properties = typename TableTraits<Table>::Properties;

 public:
  TableNet(const Table* table, const std::string& path, std::shared_ptr<void> library)
      : Net(table->name, path, kVersion), library_(std::move(library)), table_(table) {}

  abi::Result init(void** context, uint64_t communicator_id, const abi::CommConfig& config) override {
    *context = nullptr;
    abi::CommConfig copy =
        config;  // NCCL's lies on its stack: a plugin that keeps the pointer must be found out
    if constexpr (kVersion >= 11) {
      return table_->init(context, communicator_id, &copy, logger(), nullptr);
    } else {
      std::lock_guard lock(mutex_);
      if (!initialised_) {
        abi::Result result;
        if constexpr (kVersion == 10) {
          result = table_->init(logger(), nullptr);
        } else {
          result = table_->init(logger());
        }
        if (result != abi::kSuccess) return result;
        initialised_ = true;
      }
      *context = new abi::CommConfig(copy);  // v10's connect wants it
      return abi::kSuccess;
    }
  }

  abi::Result finalize(void* context) override {
    if constexpr (kVersion >= 11) {
      return table_->finalize(context);
    } else {
      delete static_cast<abi::CommConfig*>(context);
      return abi::kSuccess;
    }
  }

  abi::Result devices(int* count) override { return table_->devices(count); }

  abi::Result properties(int device, abi::PropertiesV12* result) override {
    // NCCL's memory is uninitialised: a pattern shows what the plugin left alone.
    Properties properties;
    std::memset(static_cast<void*>(&properties), 0x5a, sizeof properties);
    const abi::Result code = table_->getProperties(device, &properties);
    if (code == abi::kSuccess) widen(properties, device, result);
    return code;
  }

  abi::Result listen(void* context, int device, void* handle, void** listener) override {
    if constexpr (kVersion >= 11) {
      return table_->listen(context, device, handle, listener);
    } else {
      return table_->listen(device, handle, listener);
    }
  }

  abi::Result connect([[maybe_unused]] void* context, int device, void* handle, void** sender) override {
    abi::DeviceHandle* unused = nullptr;
    if constexpr (kVersion >= 11) {
      return table_->connect(context, device, handle, sender, &unused);
    } else if constexpr (kVersion == 10) {
      return table_->connect(device, static_cast<abi::CommConfig*>(context), handle, sender, &unused);
    } else {
      return table_->connect(device, handle, sender, &unused);
    }
  }

  abi::Result accept(void* listener, void** receiver) override {
    abi::DeviceHandle* unused = nullptr;
    return table_->accept(listener, receiver, &unused);
  }

  abi::Result reg(void* connection, void* data, size_t size, int type, void** region) override {
    return table_->regMr(connection, data, size, type, region);
  }
  abi::Result dereg(void* connection, void* region) override { return table_->deregMr(connection, region); }

  abi::Result isend(void* sender, const void* data, size_t size, int tag, void* region,
                    void** request) override {
    void* bytes = const_cast<void*>(data);  // the interface has no const; no plugin writes there
    if constexpr (kVersion == 8) {
      if (size > abi::kMaxBytesV8) return abi::kInternalError;
      return table_->isend(sender, bytes, static_cast<int>(size), tag, region, request);
    } else if constexpr (kVersion == 9) {
      return table_->isend(sender, bytes, size, tag, region, request);
    } else {
      return table_->isend(sender, bytes, size, tag, region, nullptr, request);
    }
  }

  abi::Result irecv(void* receiver, int n, void** data, size_t* sizes, int* tags, void** regions,
                    void** request) override {
    if constexpr (kVersion == 8) {
      int narrow[abi::kMaxRequests];
      if (n < 1 || n > abi::kMaxRequests) return abi::kInternalError;
      for (int i = 0; i < n; ++i) {
        if (sizes[i] > abi::kMaxBytesV8) return abi::kInternalError;
        narrow[i] = static_cast<int>(sizes[i]);
      }
      return table_->irecv(receiver, n, data, narrow, tags, regions, request);
    } else if constexpr (kVersion == 9) {
      return table_->irecv(receiver, n, data, sizes, tags, regions, request);
    } else {
      void* parents[abi::kMaxRequests] = {};
      if (n < 1 || n > abi::kMaxRequests) return abi::kInternalError;
      return table_->irecv(receiver, n, data, sizes, tags, regions, parents, request);
    }
  }

  abi::Result iflush(void* receiver, int n, void** data, int* sizes, void** regions,
                     void** request) override {
    return table_->iflush(receiver, n, data, sizes, regions, request);
  }
  abi::Result test(void* request, int* done, int* sizes) override {
    return table_->test(request, done, sizes);
  }
  abi::Result close_send(void* sender) override { return table_->closeSend(sender); }
  abi::Result close_receive(void* receiver) override { return table_->closeRecv(receiver); }
  abi::Result close_listen(void* listener) override { return table_->closeListen(listener); }

  abi::Result make_virtual_device([[maybe_unused]] int* device,
                                  [[maybe_unused]] const abi::VDevicePropsV12& members) override {
    if constexpr (kVersion == 8) {
      return abi::kInvalidUsage;
    } else {
      using VDeviceProps = decltype(Properties::vProps);
      VDeviceProps copy{};
      constexpr int places = std::extent_v<decltype(copy.devs)>;
      if (table_->makeVDevice == nullptr || members.ndevs < 1 || members.ndevs > places)
        return abi::kInvalidUsage;
      copy.ndevs = members.ndevs;
      for (int i = 0; i < members.ndevs; ++i) copy.devs[i] = members.devs[i];
      return table_->makeVDevice(device, &copy);
    }
  }

  void hint([[maybe_unused]] void* context, [[maybe_unused]] const abi::NetAttr& attributes) override {
    if constexpr (kVersion >= 11) {
      abi::NetAttr copy = attributes;
      if (table_->setNetAttr != nullptr) table_->setNetAttr(context, &copy);  // NCCL ignores the result, too
    }
  }

 private:
  std::shared_ptr<void> library_;
  const Table* table_;
  std::mutex mutex_;
  bool initialised_ = false;
};

template <class Table>
std::unique_ptr<Net> wrap(const void* address, const std::string& path, std::shared_ptr<void> library) {
  const auto* table = static_cast<const Table*>(address);
  const char* missing = nullptr;
  auto need = [&](const void* member, const char* name) {
    if (member == nullptr && missing == nullptr) missing = name;
  };
#define MEGASCALE_NEED(member) need(reinterpret_cast<const void*>(table->member), #member)
  MEGASCALE_NEED(name);
  MEGASCALE_NEED(init);
  MEGASCALE_NEED(devices);
  MEGASCALE_NEED(getProperties);
  MEGASCALE_NEED(listen);
  MEGASCALE_NEED(connect);
  MEGASCALE_NEED(accept);
  MEGASCALE_NEED(regMr);
  MEGASCALE_NEED(deregMr);
  MEGASCALE_NEED(isend);
  MEGASCALE_NEED(irecv);
  MEGASCALE_NEED(iflush);
  MEGASCALE_NEED(test);
  MEGASCALE_NEED(closeSend);
  MEGASCALE_NEED(closeRecv);
  MEGASCALE_NEED(closeListen);
  if constexpr (TableTraits<Table>::version >= 11) MEGASCALE_NEED(finalize);
#undef MEGASCALE_NEED
  if (missing != nullptr) {
    throw std::runtime_error(path + ": ncclNetPlugin_v" + std::to_string(TableTraits<Table>::version) +
                             " leaves `" + missing +
                             "' unset, which NCCL calls without a check; the plugin is broken");
  }
  return std::make_unique<TableNet<Table>>(table, path, std::move(library));
}

}  // namespace

std::unique_ptr<Net> wrap_table(int version, const void* table, const std::string& path,
                                std::shared_ptr<void> library) {
  switch (version) {
    case 8:
      return wrap<abi::NetV8>(table, path, std::move(library));
    case 9:
      return wrap<abi::NetV9>(table, path, std::move(library));
    case 10:
      return wrap<abi::NetV10>(table, path, std::move(library));
    case 11:
      return wrap<abi::NetV11>(table, path, std::move(library));
    case 12:
      return wrap<abi::NetV12>(table, path, std::move(library));
    default:
      throw std::invalid_argument("no net interface v" + std::to_string(version) + " is known (8 to 12 are)");
  }
}

}  // namespace megascale::host
