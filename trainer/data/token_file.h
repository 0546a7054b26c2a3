// A text as tokens, one byte each, mapped read-only into memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

namespace megascale::trainer {

class TokenFile {
 public:
  // Throws std::runtime_error naming the file and the reason, also when it holds fewer than `least` bytes.
  TokenFile(const std::filesystem::path& path, size_t least);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  std::span<const uint8_t> tokens() const { return tokens_; }

 private:
  std::span<const uint8_t> tokens_;
};

}  // namespace megascale::trainer
