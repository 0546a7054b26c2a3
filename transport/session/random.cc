#include "transport/session/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace megascale {

Result<void> random_bytes(std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return {Code::system,
              std::string("getrandom failed: ") + strerrordesc_np(errno) +
                  "; peers cannot be authenticated without random numbers. Is the call forbidden here?"};
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace megascale
