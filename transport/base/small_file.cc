#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transport/base/settings_table.h"

namespace megascale {
namespace {

std::string too_large(size_t limit) { return "it is larger than " + std::to_string(limit) + " bytes"; }

std::string read_all(int fd, size_t limit, std::string& text) {
  char block[4096];
  while (true) {
    const ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return strerrordesc_np(errno);
    if (n == 0) return {};
    text.append(block, static_cast<size_t>(n));
    if (text.size() > limit) return too_large(limit);
  }
}

}  // namespace

SmallFile read_small_file(const std::string& path, size_t limit) {
  SmallFile file;
  // O_NONBLOCK: opening a pipe that nobody writes would wait for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    file.error = strerrordesc_np(errno);
    return file;
  }
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    file.error = strerrordesc_np(errno);
  } else if (!S_ISREG(status.st_mode)) {
    file.error = "it is not a regular file";
  } else {
    file.others_may_read = (status.st_mode & S_IROTH) != 0;
    file.error = read_all(fd, limit, file.text);
  }
  close(fd);
  if (!file.error.empty()) file.text.clear();
  return file;
}

}  // namespace megascale
