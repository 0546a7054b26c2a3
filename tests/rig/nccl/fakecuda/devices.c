// The devices of the stand-in: as many as FAKECUDA_DEVICES says, each a CPU that claims to be of compute
// capability 8.0.
#include <cuda_runtime_api.h>
#include <string.h>
#include <strings.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"

enum { MAX_DEVICES = 16, FIRST_BUS = 0xA0 };

static __thread int current;

static int number_from(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  return text && *text ? atoi(text) : otherwise;
}

int fake_current_device(void) { return current; }
int fake_device_count(void) {
  int n = number_from("FAKECUDA_DEVICES", 1);
  return n < 1 ? 1 : n > MAX_DEVICES ? MAX_DEVICES : n;
}
static int bus_number(int device) { return FIRST_BUS + number_from("FAKECUDA_BUS", 0) + device; }
static void bus_of(int device, char* out, int length) {
  snprintf(out, (size_t)length, "0000:%02X:00.0", bus_number(device));
}
int fake_device_by_bus(const char* bus) {
  char mine[32];
  for (int i = 0; i < fake_device_count(); i++) {
    bus_of(i, mine, sizeof mine);
    if (!strcasecmp(mine, bus)) return i;
  }
  return -1;
}

EXPORTED cudaError_t cudaGetDeviceCount(int* n) {
  *n = fake_device_count();
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= fake_device_count()) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
EXPORTED cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int device) {
  bus_of(device, out, length);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* bus) {
  *device = fake_device_by_bus(bus);
  return *device < 0 ? cudaErrorInvalidDevice : cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device UNUSED) {
  switch ((int)attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 8;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 166912;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 108;
      break;
    case cudaDevAttrGPUDirectRDMASupported:
      *value = number_from("FAKECUDA_GDR", 0);
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    default:
      FAKE_LOG(3, "device attribute %d is 0", (int)attribute);
      *value = 0;
  }
  return cudaSuccess;
}

EXPORTED cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* p, int device) {
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "CPU posing as a GPU");
  p->major = 8;
  p->totalGlobalMem = 8ull << 30;
  p->multiProcessorCount = 108;
  p->warpSize = 32;
  p->pciBusID = bus_number(device);
  p->unifiedAddressing = 1;
  return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceSetLimit(enum cudaLimit limit UNUSED, size_t value UNUSED) {
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceCanAccessPeer(int* can, int a UNUSED, int b UNUSED) {
  *can = 0;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceEnablePeerAccess(int peer UNUSED, unsigned flags UNUSED) {
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetLastError(void) { return cudaSuccess; }
EXPORTED cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
EXPORTED const char* cudaGetErrorString(cudaError_t error) {
  static __thread char text[32];
  snprintf(text, sizeof text, "CUDA error %d", (int)error);
  return error ? text : "no error";
}
EXPORTED const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
EXPORTED cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode UNUSED) {
  return cudaSuccess;
}
EXPORTED cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes,
                                           const void* function UNUSED) {
  memset(attributes, 0, sizeof *attributes);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaFuncSetAttribute(const void* function UNUSED,
                                          enum cudaFuncAttribute attribute UNUSED, int value UNUSED) {
  return cudaSuccess;
}
// A kernel's handle is the address of its host stub, which has a name in libnccl's symbol table.
EXPORTED cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  *function = (cudaFunction_t)symbol;
  return cudaSuccess;
}
