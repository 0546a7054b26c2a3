// The driver's entry points that NCCL resolves through the runtime; the rest are "absent", which NCCL copes
// with.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"

EXPORTED CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error ? "driver error" : "no error";
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuGetErrorName(CUresult error, const char** text) { return cuGetErrorString(error, text); }
EXPORTED CUresult cuDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute UNUSED,
                                       CUdevice device UNUSED) {
  *value = 0;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = (CUcontext)(uintptr_t)(0x2000 + fake_current_device());
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuCtxSetCurrent(CUcontext context UNUSED) { return CUDA_SUCCESS; }
EXPORTED CUresult cuCtxGetDevice(CUdevice* device) {
  *device = fake_current_device();
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr p) {
  struct fake_allocation a;
  if (!fake_find_allocation((void*)p, &a)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = (CUdeviceptr)a.start;
  if (size) *size = a.bytes;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr p) {
  struct fake_allocation a;
  if (!fake_find_allocation((void*)p, &a)) return CUDA_ERROR_INVALID_VALUE;
  switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int*)data = a.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned*)data = a.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// NCCL hands over one buffer of arguments, which it may reuse as soon as the launch returns.
static CUresult launch(CUfunction function, CUstream stream, void** params, void** extra) {
  void* buffer = NULL;
  size_t bytes = 0;
  if (params || !extra) FAKE_DIE("a kernel launch without an argument buffer");
  for (void** e = extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = e[1];
    if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *(size_t*)e[1];
  }
  const char* name = fake_symbol_at((void*)function);
  if (!buffer || !bytes || !name) FAKE_DIE("a launch of an unknown kernel or without arguments");
  void* copy = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
  if (!copy) FAKE_DIE("out of memory for a launch of %zu bytes", bytes);
  memcpy(copy, buffer, bytes);
  FAKE_LOG(2, "launch %s, %zu bytes of arguments", name, bytes);
  fake_submit_kernel(stream, name, copy, bytes);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                                   void** extra) {
  return launch(function, config->hStream, params, extra);
}
EXPORTED CUresult cuLaunchKernel(CUfunction function, unsigned gx UNUSED, unsigned gy UNUSED,
                                 unsigned gz UNUSED, unsigned bx UNUSED, unsigned by UNUSED,
                                 unsigned bz UNUSED, unsigned shared UNUSED, CUstream stream, void** params,
                                 void** extra) {
  return launch(function, stream, params, extra);
}

static CUresult absent(void) {
  FAKE_LOG(3, "a driver function that is absent was called");
  return CUDA_ERROR_NOT_SUPPORTED;
}

EXPORTED cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                      unsigned version UNUSED,
                                                      unsigned long long flags UNUSED,
                                                      enum cudaDriverEntryPointQueryResult* result) {
  Dl_info me;
  void* self = dladdr((void*)launch, &me) ? dlopen(me.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
  char renamed[80];
  snprintf(renamed, sizeof renamed, "%s_v2", name);  // cuda.h renames some of them to this
  *function = self ? dlsym(self, name) : NULL;
  if (self && !*function) *function = dlsym(self, renamed);
  if (self) dlclose(self);
  // NCCL does without what is absent; plugins tend to insist on all that they name, and get one that only
  // fails.
  if (!*function) FAKE_LOG(3, "driver entry point %s is absent", name);
  if (!*function && !fake_in_nccl(__builtin_return_address(0))) *function = (void*)absent;
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, result);
}
