// A library that is no net plugin of any version that is supported, only of one that is too old.
__attribute__((visibility("default"))) const void* ncclNetPlugin_v7[17];
