#include "fabric_tools/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace megascale {
namespace {

namespace fs = std::filesystem;

// The file itself where `path` is a link to it; a name that leads nowhere yet stays what it is.
std::string behind_links(const std::string& path) {
  std::error_code nowhere;
  const fs::path file = fs::canonical(path, nowhere);
  return nowhere ? path : file.string();
}

// A file is replaced by a finished one. Devices and pipes are written to: a new file would take their place.
bool replaceable(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return !fs::exists(status) || fs::is_regular_file(status);
}

}  // namespace

std::string read_file(const std::string& what, const std::string& path, size_t most) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char block[65536];
  while (file && text.size() <= most) {
    file.read(block, sizeof block);
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (text.size() > most)
    throw std::invalid_argument(
        fmt::format("{} {} is larger than {} MiB, which none is", what, path, most >> 20));
  if (!file.eof())
    throw std::invalid_argument(
        fmt::format("{} {} cannot be read: {}", what, path, std::strerror(errno ? errno : EIO)));
  return text;
}

void write_file(const std::string& what, const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  const bool replaced = replaceable(path);
  const std::string target = replaced ? behind_links(path) : path;
  const std::string draft = replaced ? target + ".new" : target;
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file || (replaced && std::rename(draft.c_str(), target.c_str()) != 0)) {
    const std::string reason = std::strerror(errno);
    if (replaced) std::remove(draft.c_str());
    throw std::runtime_error(fmt::format("{} cannot be written to {}: {}", what, path, reason));
  }
}

void write_json(const std::string& path, const nlohmann::ordered_json& document) {
  write_file("the results", path,
             document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace megascale
