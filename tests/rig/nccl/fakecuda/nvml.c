// The few NVML functions NCCL asks for: it finds them because this library's soname is libnvidia-ml.so.1.
#include "tests/rig/nccl/fakecuda/fakecuda.h"

enum {
  SUCCESS = 0,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  P2P_OK = 0,
  P2P_NOT_SUPPORTED = 5
};

static char handles[64];  // a device's handle is the address of its byte

EXPORTED int nvmlInit(void) { return SUCCESS; }
EXPORTED int nvmlInit_v2(void) { return SUCCESS; }
EXPORTED int nvmlShutdown(void) { return SUCCESS; }
EXPORTED const char* nvmlErrorString(int r) {
  return r == NOT_SUPPORTED ? "Not Supported" : r ? "Error" : "Success";
}
EXPORTED int nvmlDeviceGetCount_v2(unsigned* n) {
  *n = (unsigned)fake_device_count();
  return SUCCESS;
}
EXPORTED int nvmlDeviceGetCount(unsigned* n) { return nvmlDeviceGetCount_v2(n); }
EXPORTED int nvmlDeviceGetHandleByIndex(unsigned i, void** device) {
  if (i >= sizeof handles) return INVALID_ARGUMENT;
  *device = handles + i;
  return SUCCESS;
}
EXPORTED int nvmlDeviceGetHandleByPciBusId(const char* bus, void** device) {
  int i = fake_device_by_bus(bus);
  if (i < 0) return NOT_FOUND;
  *device = handles + i;
  return SUCCESS;
}
EXPORTED int nvmlDeviceGetIndex(void* device, unsigned* i) {
  *i = (unsigned)((char*)device - handles);
  return SUCCESS;
}
EXPORTED int nvmlDeviceGetCudaComputeCapability(void* device UNUSED, int* major, int* minor) {
  *major = 8, *minor = 0;
  return SUCCESS;
}
EXPORTED int nvmlDeviceGetP2PStatus(void* a, void* b, int index UNUSED, int* status) {
  *status = a == b ? P2P_OK : P2P_NOT_SUPPORTED;
  return SUCCESS;
}
EXPORTED int nvmlDeviceGetNvLinkState(void* d UNUSED, unsigned link UNUSED, int* active UNUSED) {
  return NOT_SUPPORTED;
}
EXPORTED int nvmlDeviceGetNvLinkCapability(void* d UNUSED, unsigned link UNUSED, int what UNUSED,
                                           unsigned* r UNUSED) {
  return NOT_SUPPORTED;
}
EXPORTED int nvmlDeviceGetNvLinkRemotePciInfo(void* d UNUSED, unsigned link UNUSED, void* pci UNUSED) {
  return NOT_SUPPORTED;
}
