// The TOML file of MEGASCALE_CONFIG.
#include <gtest/gtest.h>

#include "tests/unit/transport/base/scratch.h"
#include "transport/base/settings.h"

namespace megascale {
namespace {

struct LoadedFile {
  Settings settings;
  std::vector<std::string> complaints;
};

LoadedFile load_file(const std::string& toml, std::vector<std::string> environment = {}, mode_t mode = 0600) {
  const Scratch scratch;
  environment.push_back("MEGASCALE_CONFIG=" + scratch.write("megascale.toml", toml, mode));
  LoadedFile l;
  l.settings = load_settings(environment, &l.complaints);
  return l;
}

bool says(const LoadedFile& l, size_t count, std::initializer_list<const char*> parts) {
  std::string all;
  for (const std::string& c : l.complaints) all += c + "\n";
  bool well = l.complaints.size() == count;
  for (const char* part : parts) well &= all.find(part) != std::string::npos;
  EXPECT_TRUE(well) << all;
  return well;
}

TEST(SettingsFile, SetsEverythingAndTheEnvironmentWins) {
  const LoadedFile l = load_file(R"([megascale]
link = "tcp"
flap_timeout = "90s"
flap_detect = 0.5
chunk = 65536
summary = true
stripe = "all"
rate_limit = "2G"
interfaces = "=eth0"
)",
                                 {"MEGASCALE_FLAP_TIMEOUT=30s", "NCCL_SOCKET_IFNAME=ib"});
  EXPECT_TRUE(says(l, 0, {}));
  EXPECT_EQ(l.settings.link, "tcp");
  EXPECT_EQ(l.settings.flap_timeout, 30s);
  EXPECT_EQ(l.settings.flap_detect, 500ms);
  EXPECT_EQ(l.settings.chunk, 65536u);
  EXPECT_TRUE(l.settings.summary);
  EXPECT_TRUE(l.settings.stripe);
  EXPECT_EQ(l.settings.rate_limit, Rate::gigabits(2));
  EXPECT_EQ(l.settings.interfaces, "ib");
}

TEST(SettingsFile, ParametersThatNoControllerTakesAreReadAndComplainedAbout) {
  const LoadedFile l = load_file("[cc]\nrate = \"25G\"\nwindow = 1000\ngain = 0.125\n");
  EXPECT_EQ(l.settings.cc_parameters,
            (std::map<std::string, double>{{"rate", 25e9}, {"window", 1000}, {"gain", 0.125}}));
  says(l, 1, {"the [cc] table", "MEGASCALE_CC=auto", "MEGASCALE_RATE_LIMIT", "is ignored"});
}

TEST(SettingsFile, UnknownKeysAreNamedWithTheirLine) {
  says(load_file("[megascale]\nlink = \"tcp\"\nflap_timout = \"1s\"\n"), 1,
       {"megascale.toml:3: ", "'flap_timout'", "did you mean flap_timeout?"});
  says(load_file("link = \"tcp\"\n"), 1, {"megascale.toml:1: ", "'link'", "[megascale]"});
  says(load_file("\n\n[trainer]\nx = 1\n"), 1, {"megascale.toml:3: ", "'trainer'"});
}

TEST(SettingsFile, WrongValuesAreNamedWithTheirLineAndTheRange) {
  says(load_file("[megascale]\n\nflap_detect = \"1ms\"\n"), 1,
       {"megascale.toml:3: flap_detect='1ms'", "10ms to 1min"});
  says(load_file("[megascale]\nchunk = [1]\n"), 1,
       {"megascale.toml:2: chunk must be a text or a number", "4K to 1G"});
  says(load_file("[megascale]\nflap_detect = nan\n"), 1, {"megascale.toml:2: flap_detect"});
  says(load_file("[megascale]\nflap_detect = inf\n"), 1, {"megascale.toml:2: flap_detect"});
  says(load_file("[cc]\ngain = \"much\"\n"), 1, {"megascale.toml:2: 'gain' in [cc]"});
  says(load_file("[megascale]\nrank = 1\nconfig = \"x\"\n"), 2,
       {"only be set in the environment, as MEGASCALE_RANK"});
}

TEST(SettingsFile, MalformedTomlIsNamedWithLineAndColumnAndNothingOfItIsUsed) {
  const LoadedFile l = load_file("[megascale]\nlink = \"tcp\"\nflap_detect = = 3\n");
  says(l, 1, {"megascale.toml:3: malformed TOML at column "});
  EXPECT_EQ(l.settings.link, "auto");
  EXPECT_FALSE(l.settings.secret_unreadable);
}

TEST(SettingsFile, AComplaintIsOneLineWhateverTheParserSays) {
  for (const char* text :
       {"[cc.deep]\xef\xbb\xbf\n0a1979-05-ate = 1\n", "[megascale]\nlink\n", "a\x1b[31m = 1\n"}) {
    const LoadedFile l = load_file(text);
    ASSERT_EQ(l.complaints.size(), 1u) << text;
    EXPECT_EQ(l.complaints[0].find_first_of("\n\x1b"), std::string::npos) << l.complaints[0];
  }
}

TEST(SettingsFile, ATextThatTheParserGivesUpOnIsNamedWithItsLine) {
  says(load_file("[megascale]\nlink = \"tcp\"\n\n[[[\nchunk = 65536\n"), 1,
       {"megascale.toml:4: malformed TOML"});
}

TEST(SettingsFile, HostileTomlIsAComplaintAndNoCrash) {
  for (const std::string& text :
       {std::string("\xff\xfe\0x", 4), std::string(100'000, '['),
        "[megascale]\na = " + std::string(100'000, '['), std::string("[megascale]\nlink = \"\\uD800\""),
        std::string("[megascale]\nlink = \"\0\"", 22), "[megascale]\nchunk = " + std::string(400, '9'),
        std::string(1 << 20, '#') + "\n"}) {
    EXPECT_EQ(load_file(text).complaints.size(), 1u) << text.substr(0, 20);
  }
}

TEST(SettingsFile, TheSecretIsInNoMessageHoweverBrokenTheFileIs) {
  for (const char* text : {"[megascale]\nsecret = hunter2\n", "[megascale]\nsecret = \"hunter2\n",
                           "[megascale]\nsecret = 'hunter2' x\n", "[megascale]\nsecret = { hunter2 = 1 }\n",
                           "[megascale]\nsecret = \"hunter2\"\nsecret = \"hunter2\"\n",
                           "secret = \"hunter2\"\n", "[megascale]\nsecrets = \"hunter2\"\n",
                           "[megascale]\nsecret hunter2\n", "[megascale]\nsecret = truehunter2\n"}) {
    const LoadedFile l = load_file(text);
    ASSERT_EQ(l.complaints.size(), 1u) << text;
    EXPECT_EQ(l.complaints[0].find("hunter2"), std::string::npos) << l.complaints[0];
  }
}

TEST(SettingsFile, ASecretThatABrokenFileMayHoldForbidsToStart) {
  EXPECT_TRUE(load_file("[megascale]\nsecret = \"hunter2\n").settings.secret_unreadable);
  EXPECT_TRUE(load_file("[megascale]\nsecret = [1]\n").settings.secret_unreadable);
  EXPECT_FALSE(
      load_file("[megascale]\nsecret = [1]\n", {"MEGASCALE_SECRET=other"}).settings.secret_unreadable);
}

TEST(SettingsFile, AFileWithASecretThatOthersCanReadIsNamed) {
  says(load_file("[megascale]\nsecret = \"hunter2\"\n", {}, 0644), 1, {"chmod o-r"});
  says(load_file("[megascale]\nlink = \"tcp\"\n", {}, 0644), 0, {});
}

TEST(SettingsFile, AMissingFileIsNamed) {
  std::vector<std::string> complaints;
  const std::vector<std::string> environment = {"MEGASCALE_CONFIG=/nowhere/megascale.toml"};
  const Settings s = load_settings(environment, &complaints);
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find("/nowhere/megascale.toml' failed: No such file or directory"),
            std::string::npos)
      << complaints[0];
  EXPECT_TRUE(s.secret_unreadable) << "it may have held the secret";
}

}  // namespace
}  // namespace megascale
