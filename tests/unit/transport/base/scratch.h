// A directory of a test's own, gone when the test is over.
#pragma once
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace megascale {

class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "megascale-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) ADD_FAILURE() << "no scratch directory at " << pattern;
    directory_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path(name), std::ios::binary) << text;
    chmod(path(name).c_str(), mode);
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace megascale
