#include "fabric_tools/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tests/unit/complaint.h"
#include "tests/unit/transport/base/scratch.h"

namespace megascale {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class File : public testing::Test {
 protected:
  static nlohmann::ordered_json read(const fs::path& path) {
    std::ifstream file(path);
    return nlohmann::ordered_json::parse(file);
  }

  const Scratch scratch_;
  const fs::path folder_ = scratch_.directory();
  const nlohmann::ordered_json document_{{"a", 1}};
};

TEST_F(File, IsReadWithinALimit) {
  const std::string path = (folder_ / "text").string();
  std::ofstream(path) << std::string(70'000, 'x');
  EXPECT_EQ(read_file("the text", path, 70'000).size(), 70'000u);
  EXPECT_THROW(read_file("the text", path, 69'999), std::invalid_argument);
  EXPECT_THROW(read_file("the text", "/dev/zero", 1 << 20), std::invalid_argument);
}

TEST_F(File, WhatCannotBeReadIsToldWithItsReason) {
  const auto told = [](const std::string& path) {
    return complaint([&] { read_file("the text", path, 10); });
  };
  EXPECT_EQ(told("/nowhere"), "the text /nowhere cannot be read: No such file or directory");
  EXPECT_EQ(told(folder_.string()), "the text " + folder_.string() + " cannot be read: Is a directory");
}

TEST_F(File, ALinkStaysALink) {
  std::ofstream(folder_ / "kept.json") << "old";
  fs::create_symlink(folder_ / "kept.json", folder_ / "link.json");
  write_json((folder_ / "link.json").string(), document_);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.json"));
  EXPECT_EQ(read(folder_ / "kept.json"), document_);
}

TEST_F(File, WhatIsNoUtf8DoesNotKeepTheRestFromBeingWritten) {
  write_json((folder_ / "o.json").string(), {{"name", "tr\xff"}, {"value", 1}});
  EXPECT_EQ(read(folder_ / "o.json")["value"], 1);
}

TEST_F(File, WhatIsNoFileIsWrittenToAndNotReplaced) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int end = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_GE(end, 0);
  write_json(pipe, document_);
  char text[100];
  EXPECT_EQ(::read(end, text, sizeof text), static_cast<ssize_t>(document_.dump(2).size() + 1));
  ::close(end);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_FALSE(fs::exists(pipe + ".new"));
}

TEST_F(File, AFullDeviceIsToldOf) {
  fs::create_symlink("/dev/full", folder_ / "full");  // what would be replaced here is the link
  EXPECT_THROW(write_json((folder_ / "full").string(), document_), std::runtime_error);
  EXPECT_TRUE(fs::is_character_file(folder_ / "full"));
}

TEST_F(File, AFolderIsToldOf) {
  EXPECT_THROW(write_json(folder_.string(), document_), std::runtime_error);
  EXPECT_TRUE(fs::is_directory(folder_));
}

}  // namespace
}  // namespace megascale
