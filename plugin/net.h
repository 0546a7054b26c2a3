// NCCL's network interface on top of transport/, once for all versions: plugin/tables.cc makes the thin
// per-version tables. Contracts are NCCL's (plugin/abi/net.h); what is subtle about each is said where it is
// honoured.
#pragma once
#include "plugin/guest.h"

namespace megascale::plugin {

abi::Result init(void** context, uint64_t communicator, const abi::CommConfig*, abi::LogFunction);
abi::Result finalize(void* context);
abi::Result devices(int* n);
abi::Result listen(void* context, int device, void* handle, void** listen_comm);
abi::Result connect(void* context, int device, void* handle, void** send_comm, abi::DeviceHandle**);
abi::Result accept(void* listen_comm, void** receive_comm, abi::DeviceHandle**);
abi::Result reg(void* comm, void* data, std::size_t, int type, void** mhandle);
abi::Result dereg(void* comm, void* mhandle);
abi::Result isend(void* comm, void* data, std::size_t, int tag, void* mhandle, void** request);
abi::Result irecv(void* comm, int n, void* const* data, const std::size_t* sizes, void* const* mhandles,
                  void** request);
abi::Result iflush(void* comm, int n, void** data, int* sizes, void** mhandles, void** request);
abi::Result test(void* request, int* done, int* sizes);
abi::Result close(void* comm);  // a sending or a receiving one
abi::Result close_listen(void* listen_comm);

}  // namespace megascale::plugin
