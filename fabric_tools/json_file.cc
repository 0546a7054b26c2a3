#include "fabric_tools/json_file.h"

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

void write_json(const std::string& path, const nlohmann::ordered_json& document) {
  const std::string text = document.dump(2) + "\n";
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
    throw std::runtime_error("the results cannot be written to " + path + ": " + reason);
  }
}

}  // namespace megascale
