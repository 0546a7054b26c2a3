#include "fabric_tools/json_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace megascale {

void write_json(const std::string& path, const nlohmann::ordered_json& document) {
  const std::string text = document.dump(2) + "\n";
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  const std::string draft = path + ".new";
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(draft.c_str());
    throw std::runtime_error("the results cannot be written to " + path + ": " + reason);
  }
}

}  // namespace megascale
