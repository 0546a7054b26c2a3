#include "plugin/host/secret.h"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "transport/session/random.h"

namespace megascale::host {

void ensure_job_secret() {
  for (const char* name : {"MEGASCALE_SECRET", "MEGASCALE_SECRET_FILE", "MEGASCALE_CONFIG"})
    if (const char* set = std::getenv(name); set && *set) return;
  std::array<uint8_t, 16> bytes{};
  if (auto ok = random_bytes(bytes); !ok) throw std::runtime_error(ok.error().message);
  std::string text;
  for (uint8_t b : bytes) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  setenv("MEGASCALE_SECRET", text.c_str(), 1);
}

}  // namespace megascale::host
