// Order and split of the data, and the files it comes from.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>

#include "tests/unit/transport/base/scratch.h"
#include "trainer/data/king_james.h"
#include "trainer/data/sample_order.h"
#include "trainer/data/token_file.h"

namespace megascale::trainer {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text, bool executable = false) {
    const fs::path path = folder / name;
    std::ofstream(path) << text;
    if (executable) chmod(path.c_str(), 0700);
    return path;
  }

  template <class Body>
  static std::string error_of(Body body) {
    try {
      body();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  const Scratch scratch;
  const fs::path folder = scratch.directory();
};

TEST(Permutation, IsOneForManySizes) {
  for (const uint64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 4097}) {
    const Permutation permutation(size, 42);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
  EXPECT_THROW(Permutation(0, 1), std::invalid_argument);
  EXPECT_THROW(Permutation(5, 1)(5), std::out_of_range);
}

TEST(Permutation, ShufflesAndDependsOnTheKey) {
  const Permutation one(1000, 1), two(1000, 2);
  size_t fixed = 0, equal = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    fixed += one(i) == i;
    equal += one(i) == two(i);
  }
  EXPECT_LT(fixed, 20U);
  EXPECT_LT(equal, 20U);
}

TEST(SampleOrder, SeesEveryWindowOnceAnEpochAndStaysInside) {
  const size_t context = 10;
  const SampleOrder order(1007, context, 5);
  std::set<uint64_t> epochs_starts[2];
  for (uint64_t i = 0; i < 2 * order.windows(); ++i) {
    const uint64_t offset = order.offset(i);
    ASSERT_LE(offset + context + 1, 1007U);
    epochs_starts[i / order.windows()].insert(offset);
  }
  for (const auto& starts : epochs_starts) {
    EXPECT_EQ(starts.size(), order.windows());
    for (const uint64_t start : starts) EXPECT_EQ(start % context, *starts.begin() % context);
  }
  EXPECT_GE(order.windows() * context, 1007U - 2 * context);
}

TEST(SampleOrder, DependsOnSeedAndIndexAlone) {
  const SampleOrder order(100000, 16, 5), again(100000, 16, 5), other(100000, 16, 6);
  EXPECT_EQ(order.offset(12345), again.offset(12345));  // without having asked for those before
  size_t equal = 0;
  for (uint64_t i = 0; i < 100; ++i) equal += order.offset(i) == other.offset(i);
  EXPECT_LT(equal, 5U);
}

TEST(SampleOrder, RefusesATextThatIsTooShort) {
  EXPECT_NO_THROW(SampleOrder(33, 16, 1).offset(0));
  EXPECT_THROW(SampleOrder(32, 16, 1), std::invalid_argument);
}

TEST(Share, OfAllRanksIsTheBatchInOrder) {
  for (const int ranks : {1, 2, 3, 4, 12}) {
    uint64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Share share = share_of(12, rank, ranks);
      EXPECT_EQ(share.first, next);
      next += share.count;
    }
    EXPECT_EQ(next, 12U);
  }
  EXPECT_THROW(share_of(12, 0, 5), std::invalid_argument);
  EXPECT_THROW(share_of(12, 4, 4), std::invalid_argument);
}

TEST(BatchReader, GivesEachTokenTheNextAsItsTarget) {
  const std::string text = "In the beginning God created";
  BatchReader reader({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 4);
  reader.append(0);
  reader.append(7);
  const std::string inputs(reader.inputs().begin(), reader.inputs().end());
  const std::string targets(reader.targets().begin(), reader.targets().end());
  EXPECT_EQ(inputs, "In tbegi");
  EXPECT_EQ(targets, "n thegin");
  EXPECT_NO_THROW(reader.append(text.size() - 5));
  EXPECT_THROW(reader.append(text.size() - 4), std::out_of_range);
}

TEST_F(Files, TokensAreTheFilesBytes) {
  const TokenFile file(write("text", std::string("a\xff\0z", 4)), 4);
  EXPECT_EQ(std::vector<uint8_t>(file.tokens().begin(), file.tokens().end()),
            (std::vector<uint8_t>{'a', 0xFF, 0, 'z'}));
}

TEST_F(Files, ErrorsOfATextNameTheFileAndTheReason) {
  const std::string missing = error_of([&] { TokenFile(folder / "none", 1); });
  EXPECT_NE(missing.find((folder / "none").string()), std::string::npos) << missing;
  EXPECT_NE(missing.find("No such file"), std::string::npos) << missing;
  const std::string small = error_of([&] { TokenFile(write("short", "abc"), 4); });
  EXPECT_NE(small.find("3 bytes"), std::string::npos) << small;
  EXPECT_NE(small.find("at least 4"), std::string::npos) << small;
  EXPECT_NE(error_of([&] { TokenFile(write("empty", ""), 0); }), "");
  EXPECT_NE(error_of([&] { TokenFile(folder, 1); }).find("regular"), std::string::npos);
}

TEST(KingJames, StripsLabels) {
  size_t verses = 0;
  EXPECT_EQ(strip_verse_labels("Ge1:1 In the beginning.\n1Sam3:10 Speak: thy servant heareth.\n", &verses),
            "In the beginning.\nSpeak: thy servant heareth.\n");
  EXPECT_EQ(verses, 2U);
  EXPECT_THROW(strip_verse_labels("Ge1:1 ok\nand no label here\n", nullptr), std::runtime_error);
  EXPECT_THROW(strip_verse_labels("Ge1: no verse\n", nullptr), std::runtime_error);
  EXPECT_THROW(strip_verse_labels("Ge:1 no chapter\n", nullptr), std::runtime_error);
  EXPECT_EQ(strip_verse_labels("", nullptr), "");
}

TEST_F(Files, KingJamesFailuresSayWhatToDo) {
  const fs::path out = folder / "text";
  auto error = [&](const KingJamesOptions& options) {
    return error_of([&] { write_king_james(out, options); });
  };
  const std::string missing = error({.program = "no-such-bible-program"});
  EXPECT_NE(missing.find("apt-get install bible-kjv"), std::string::npos) << missing;
  const fs::path failing = write("failing", "#!/bin/sh\nexit 3\n", true);
  EXPECT_NE(error({.program = failing.string()}).find("status 3"), std::string::npos);
  const fs::path brief = write("brief", "#!/bin/sh\necho 'Ge1:1 In the beginning'\n", true);
  EXPECT_NE(error({.program = brief.string()}).find("1 of the 31102 verses"), std::string::npos);
  const fs::path slow = write("slow", "#!/bin/sh\nexec sleep 600\n", true);
  EXPECT_NE(error({.program = slow.string(), .timeout_seconds = 1}).find("1 s"), std::string::npos);
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Files, KingJamesIsWholeWhenInstalled) {
  const fs::path out = folder / "text";
  if (std::system("command -v bible >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "the program bible (bible-kjv) is not installed";
  write_king_james(out);
  const TokenFile file(out, 4000000);
  const std::string first(file.tokens().begin(), file.tokens().begin() + 16);
  EXPECT_EQ(first, "In the beginning");
  EXPECT_EQ(std::count(file.tokens().begin(), file.tokens().end(), '\n'), 31102);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "a partial file was left behind";
  const std::string nowhere = error_of([&] { write_king_james(folder / "no" / "folder"); });
  EXPECT_NE(nowhere.find("No such file"), std::string::npos) << nowhere;
}

}  // namespace
}  // namespace megascale::trainer
