// Reads a TOML file key by key against a schema given in code: every mistake is collected with its line, none
// is passed over.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace megascale::trainer {

// All complaints of a configuration, one a line: "file:line: what is wrong and what would be right".
class ConfigurationError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class TomlReader {
 public:
  // Throws ConfigurationError when the file cannot be read or is not TOML.
  explicit TomlReader(const std::filesystem::path& file);
  ~TomlReader();

  // "section.key": the value is left alone when the key is absent, and complained about when it has another
  // type or lies outside [least, most].
  void read(std::string_view key, size_t* value, size_t least, size_t most);
  void read_seed(std::string_view key, uint64_t* value);  // 0 to 2^63 - 1
  void read(std::string_view key, double* value, double least, double most);
  void read(std::string_view key, bool* value);
  void read(std::string_view key, std::string* value);

  // A complaint about a key's value, found by a check of the caller's.
  void complain(std::string_view key, const std::string& text);

  // Complains about every key that was never read, then throws ConfigurationError if there was any complaint.
  void finish();

 private:
  struct Contents;
  bool whole_number(std::string_view key, int64_t least, int64_t most, int64_t* value);

  std::unique_ptr<Contents> contents_;
  std::vector<std::string> known_;
  std::vector<std::string> complaints_;
};

}  // namespace megascale::trainer
