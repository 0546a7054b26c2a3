#include "transport/base/toml.h"

#include <gtest/gtest.h>

namespace megascale {
namespace {

std::string dotted(size_t parts) {
  std::string key = "a";
  for (size_t i = 1; i < parts; ++i) key += ".a";
  return key;
}

TEST(Toml, KeysOfAMillionPartsAreRefusedWithTheirLine) {
  for (const std::string& text :
       {dotted(1'000'000) + " = 1", "[" + dotted(1'000'000) + "]", "[[" + dotted(1'000'000) + "]]",
        "x = {" + dotted(1'000'000) + " = 1}", dotted(65) + " = 1", "\"#\".'\"'." + dotted(63) + " = 1"}) {
    const ParsedToml parsed = parse_toml("# one\nb = 1\n" + text + "\n");
    EXPECT_FALSE(parsed.table);
    EXPECT_EQ(parsed.line, 3u);
    EXPECT_NE(parsed.description.find("64 parts"), std::string::npos) << parsed.description;
  }
}

TEST(Toml, PointsElsewhereAreNoPartsOfKeys) {
  const std::string points(500, '.');
  for (const std::string& text :
       {dotted(64) + " = 1", "# " + points, "a = \"" + points + "\"", "a = '" + points + "'",
        "a = \"\\\"" + points + "\"", "a = \"\"\"\n\"" + points + "\n\"\"\"", "a = '''\n'" + points + "'''",
        "'" + points + "' = 1", "a = [" + std::string("1.5, ") + "2.5] # " + points}) {
    EXPECT_TRUE(parse_toml(text).table) << text;
    EXPECT_TRUE(parse_toml(text + "\r\n").table) << text;
  }
}

}  // namespace
}  // namespace megascale
