// Any NCCL network plugin behind one interface, whichever version its table has: v12's shape, with what an
// older table lacks supplied as NCCL's own shims supply it.
//
// Calls are passed through as they are: a null object with success means "later", `*request` may hold
// anything on entry, and what the caller must not do to a plugin by NCCL's rules it must not do here. Every
// function may be called from any thread, one connection's data path from one thread at a time; registration
// may run beside it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "plugin/abi/net.h"

namespace megascale::host {

class Net {
 public:
  virtual ~Net() = default;
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  const std::string& name() const { return name_; }  // the plugin's, e.g. "Megascale"
  const std::string& path() const { return path_; }  // what was opened
  int version() const { return version_; }           // 8 to 12

  // Once per communicator and rank. Tables before v11 see only the first; they have no end either.
  virtual abi::Result init(void** context, uint64_t communicator_id, const abi::CommConfig& config) = 0;
  virtual abi::Result finalize(void* context) = 0;

  virtual abi::Result devices(int* count) = 0;
  virtual abi::Result properties(int device, abi::PropertiesV12* properties) = 0;
  virtual abi::Result listen(void* context, int device, void* handle, void** listener) = 0;
  virtual abi::Result connect(void* context, int device, void* handle, void** sender) = 0;
  virtual abi::Result accept(void* listener, void** receiver) = 0;
  virtual abi::Result reg(void* connection, void* data, size_t size, int type, void** region) = 0;
  virtual abi::Result dereg(void* connection, void* region) = 0;
  virtual abi::Result isend(void* sender, const void* data, size_t size, int tag, void* region,
                            void** request) = 0;
  virtual abi::Result irecv(void* receiver, int n, void** data, size_t* sizes, int* tags, void** regions,
                            void** request) = 0;
  virtual abi::Result iflush(void* receiver, int n, void** data, int* sizes, void** regions,
                             void** request) = 0;
  virtual abi::Result test(void* request, int* done, int* sizes) = 0;
  virtual abi::Result close_send(void* sender) = 0;
  virtual abi::Result close_receive(void* receiver) = 0;
  virtual abi::Result close_listen(void* listener) = 0;

  // Merges devices into one; InvalidUsage where the table has no such function.
  virtual abi::Result make_virtual_device(int* device, const abi::VDevicePropsV12& members) = 0;
  virtual void hint(void* context, const abi::NetAttr& attributes) = 0;  // setNetAttr, where there is one

 protected:
  Net(std::string name, std::string path, int version)
      : name_(std::move(name)), path_(std::move(path)), version_(version) {}

 private:
  std::string name_;
  std::string path_;
  int version_;
};

// Wraps a table of the given version. `library` is kept for as long as the result lives. Throws
// std::runtime_error naming a member that must be set and is not.
std::unique_ptr<Net> wrap_table(int version, const void* table, const std::string& path,
                                std::shared_ptr<void> library);

}  // namespace megascale::host
