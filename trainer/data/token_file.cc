#include "trainer/data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace megascale::trainer {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw std::runtime_error("cannot read the text " + path.string() + ": " + why);
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, size_t least) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, std::string(std::strerror(errno)) + "; set data.text to a file that exists");
  struct stat status {};
  const bool known = fstat(fd, &status) == 0;
  const size_t size = known && status.st_size > 0 ? static_cast<size_t>(status.st_size) : 0;
  void* memory = MAP_FAILED;
  int error = errno;
  if (known && S_ISREG(status.st_mode) && size >= least && size > 0) {
    memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    error = errno;
  }
  close(fd);
  if (!known) fail(path, std::strerror(error));
  if (!S_ISREG(status.st_mode)) fail(path, "it is not a regular file");
  if (size < least || size == 0)
    fail(path, "it has " + std::to_string(size) + " bytes, and this configuration needs at least " +
                   std::to_string(least) + "; use a longer text or a shorter model.context");
  if (memory == MAP_FAILED) fail(path, std::strerror(error));
  tokens_ = {static_cast<const uint8_t*>(memory), size};
}

TokenFile::~TokenFile() {
  if (!tokens_.empty()) munmap(const_cast<uint8_t*>(tokens_.data()), tokens_.size());
}

}  // namespace megascale::trainer
