// Which memory is registered on which connection. Registration runs beside traffic on the same connection, as
// under NCCL; what is still registered at the end is deregistered before the connections are closed.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugin/host/net.h"
#include "plugin/host/operation.h"

namespace megascale::host {

class Registrar {
 public:
  explicit Registrar(Net& net) : net_(net) {}

  // A handle for the range on the connection, kept in `undo` unless the range lies in lasting memory. Throws
  // std::runtime_error when the plugin refuses or everything has been closed.
  void* reg(void* connection, const void* data, size_t bytes, std::vector<Operation::Registration>& undo);
  void undo(std::vector<Operation::Registration>& registrations);

  // Memory of which parts will be used again and again: registered once a connection, at its first use there.
  void keep(const void* data, size_t bytes);
  void drop(const void* data);  // no operation on it may be outstanding

  void close();  // deregisters everything; `reg` fails from now on

 private:
  struct Lasting {
    size_t bytes;
    std::map<void*, void*> regions;  // by connection
  };
  void* call_reg(void* connection, const void* data, size_t bytes);
  Lasting* find(const void* data, size_t bytes);

  Net& net_;
  std::mutex mutex_;
  // Connection and region; a plugin may give the same handle for the same range again, and counts then.
  std::multiset<std::pair<void*, void*>> live_;
  std::map<uintptr_t, Lasting> lasting_;
  bool closed_ = false;
};

}  // namespace megascale::host
