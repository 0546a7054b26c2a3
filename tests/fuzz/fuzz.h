// What all fuzz targets need: an expectation that ends the run with a sentence.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

inline void must(bool holds, const char* sentence) {
  if (holds) return;
  fprintf(stderr, "fuzz: %s\n", sentence);
  abort();
}
