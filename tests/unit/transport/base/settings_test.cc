#include "transport/base/settings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <set>

#include "tests/unit/transport/base/scratch.h"

namespace megascale {
namespace {

using Texts = std::vector<std::string>;

struct Loaded {
  Settings settings;
  Texts complaints;
};

Loaded load(const Texts& environment) {
  Loaded l;
  l.settings = load_settings(environment, &l.complaints);
  return l;
}

std::string joined(const Texts& texts) {
  std::string all;
  for (const std::string& t : texts) all += t + "\n";
  return all;
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_SILENT_ABOUT(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

TEST(Settings, NothingSetGivesTheDefaults) {
  const Loaded l = load({});
  EXPECT_TRUE(l.complaints.empty()) << joined(l.complaints);
  EXPECT_EQ(l.settings.link, "auto");
  EXPECT_EQ(l.settings.flap_timeout, 120s);
  EXPECT_TRUE(l.settings.rate_limit.is_unlimited());
  EXPECT_FALSE(l.settings.stripe);
  EXPECT_FALSE(l.settings.secret_unreadable);
  EXPECT_EQ(l.settings.rank, -1);
}

TEST(Settings, TheEnvironmentIsParsed) {
  const Loaded l = load({"MEGASCALE_LINK=tcp",
                         "MEGASCALE_CC=auto",
                         "MEGASCALE_RAILS=10.0.0.1,10.0.0.2",
                         "MEGASCALE_FLAP_TIMEOUT=2min",
                         "MEGASCALE_FLAP_DETECT=100ms",
                         "MEGASCALE_RATE_LIMIT=10G",
                         "MEGASCALE_CHUNK=1M",
                         "MEGASCALE_STRIPE=all",
                         "MEGASCALE_SUMMARY=1",
                         "MEGASCALE_LOG=trace",
                         "MEGASCALE_TCP_ALGORITHM=reno",
                         "MEGASCALE_TCP_SEND_BUFFER=4M",
                         "MEGASCALE_RANK=3",
                         "MEGASCALE_RANKS=8",
                         "MEGASCALE_LOCAL_RANK=1",
                         "MEGASCALE_RENDEZVOUS=[::1]:4000",
                         "MEGASCALE_CONNECT_TIMEOUT=5",
                         "PATH=/bin",
                         "MEGASCALE=1",
                         "HOME"});
  EXPECT_TRUE(l.complaints.empty()) << joined(l.complaints);
  EXPECT_EQ(l.settings.link, "tcp");
  EXPECT_EQ(l.settings.cc, "auto");
  EXPECT_EQ(l.settings.rails, "10.0.0.1,10.0.0.2");
  EXPECT_EQ(l.settings.flap_timeout, 120s);
  EXPECT_EQ(l.settings.flap_detect, 100ms);
  EXPECT_EQ(l.settings.connect_timeout, 5s);
  EXPECT_EQ(l.settings.rate_limit, Rate::gigabits(10));
  EXPECT_EQ(l.settings.chunk, 1u << 20);
  EXPECT_TRUE(l.settings.stripe);
  EXPECT_TRUE(l.settings.summary);
  EXPECT_EQ(l.settings.log, "trace");
  EXPECT_EQ(l.settings.tcp_algorithm, "reno");
  EXPECT_EQ(l.settings.tcp_send_buffer, 4u << 20);
  EXPECT_EQ(l.settings.rank, 3);
  EXPECT_EQ(l.settings.ranks, 8);
  EXPECT_EQ(l.settings.local_rank, 1);
  EXPECT_EQ(l.settings.rendezvous, "[::1]:4000");
}

TEST(Settings, TheProcessEnvironmentIsTheSource) {
  ASSERT_EQ(setenv("MEGASCALE_RETURN_HOLD", "3s", 1), 0);
  ASSERT_EQ(setenv("MEGASCALE_NO_SUCH_THING", "x", 1), 0);
  Texts complaints;
  const Settings s = load_settings(&complaints);
  unsetenv("MEGASCALE_RETURN_HOLD");
  unsetenv("MEGASCALE_NO_SUCH_THING");
  EXPECT_EQ(s.return_hold, 3s);
  EXPECT_SAYS(joined(complaints), "MEGASCALE_NO_SUCH_THING");
}

TEST(Settings, AnUnknownVariableIsNamedOnceAndItsValueIsNot) {
  const Loaded l = load({"MEGASCALE_FLAP_TIMEOUTS=hunter2", "MEGASCALE_COLOUR=red"});
  ASSERT_EQ(l.complaints.size(), 2u) << joined(l.complaints);
  EXPECT_SAYS(l.complaints[0], "MEGASCALE_FLAP_TIMEOUTS");
  EXPECT_SAYS(l.complaints[0], "did you mean MEGASCALE_FLAP_TIMEOUT?");
  EXPECT_SAYS(l.complaints[1], "MEGASCALE_COLOUR");
  EXPECT_SILENT_ABOUT(l.complaints[1], "did you mean");
  EXPECT_SILENT_ABOUT(joined(l.complaints), "hunter2");
}

TEST(Settings, AValueOutOfRangeIsNamedWithTheRangeAndTheDefaultStays) {
  for (const std::string wrong : {"99ms", "25h", "soon", "-1s", "1e99", "120 s", "nan"}) {
    const Loaded l = load({"MEGASCALE_FLAP_TIMEOUT=" + wrong});
    ASSERT_EQ(l.complaints.size(), 1u) << wrong;
    EXPECT_SAYS(l.complaints[0], "MEGASCALE_FLAP_TIMEOUT='" + wrong + "'");
    EXPECT_SAYS(l.complaints[0], "100ms to 24h");
    EXPECT_EQ(l.settings.flap_timeout, 120s);
  }
}

TEST(Settings, EveryKindRefusesNonsense) {
  const Texts wrong = {"MEGASCALE_LINK=pigeon",        "MEGASCALE_STRIPE=yes",
                       "MEGASCALE_SUMMARY=2",          "MEGASCALE_CHUNK=1",
                       "MEGASCALE_CHUNK=2G",           "MEGASCALE_RATE_LIMIT=1",
                       "MEGASCALE_RATE_LIMIT=fast",    "MEGASCALE_RANK=-1",
                       "MEGASCALE_RANK=1.5",           "MEGASCALE_RANKS=0",
                       "MEGASCALE_RANKS=99999999999",  "MEGASCALE_LOG=loud",
                       "MEGASCALE_TCP_ALGORITHM=Reno", "MEGASCALE_RENDEZVOUS=nowhere",
                       "MEGASCALE_RENDEZVOUS=a:0",     "MEGASCALE_RENDEZVOUS=:80",
                       "NCCL_SOCKET_FAMILY=AF_UNIX",   "MEGASCALE_RENDEZVOUS=a:70000"};
  for (const std::string& one : wrong) {
    const Loaded l = load({one});
    ASSERT_EQ(l.complaints.size(), 1u) << one;
    EXPECT_SAYS(l.complaints[0], one.substr(0, one.find('=')));
    EXPECT_SAYS(l.complaints[0], "accepted: ");
  }
}

TEST(Settings, ALinkThatIsNotBuiltIsRefusedByName) {
  const Loaded l = load({"MEGASCALE_LINK=verbs"});
  ASSERT_EQ(l.complaints.size(), 1u);
  EXPECT_SAYS(l.complaints[0], "'verbs' is not in this build");
  EXPECT_EQ(l.settings.link, "auto");
}

TEST(Settings, AControllerThatNoLinkObeysIsRefusedByName) {
  for (const std::string name : {"dcqcn", "swift", "hpcc"}) {
    const Loaded l = load({"MEGASCALE_CC=" + name});
    ASSERT_EQ(l.complaints.size(), 1u);
    EXPECT_SAYS(l.complaints[0],
                "MEGASCALE_CC='" + name + "' is not in this build; accepted: auto|fixed. Using auto.");
    EXPECT_EQ(l.settings.cc, "auto");
  }
}

TEST(Settings, AValueIsShownShortAndOnOneLine) {
  const Loaded l =
      load({"MEGASCALE_LOG=" + std::string(9000, 'x'), std::string("MEGASCALE_CC=\x1b[31m\nroot")});
  ASSERT_EQ(l.complaints.size(), 2u);
  for (const std::string& c : l.complaints) {
    EXPECT_LT(c.size(), 250u);
    EXPECT_SILENT_ABOUT(c, "\n");
    EXPECT_SILENT_ABOUT(c, "\x1b");
  }
}

TEST(Settings, AnEmptyValueCountsAsNotSet) {
  const Loaded l = load({"MEGASCALE_LINK=", "MEGASCALE_WHATEVER=", "NCCL_SOCKET_IFNAME="});
  EXPECT_TRUE(l.complaints.empty()) << joined(l.complaints);
}

TEST(Settings, TheFamiliarNamesAreHonouredAndOursWin) {
  Loaded l = load({"NCCL_SOCKET_IFNAME=^lo,docker", "NCCL_SOCKET_FAMILY=AF_INET6"});
  EXPECT_TRUE(l.complaints.empty()) << joined(l.complaints);
  EXPECT_EQ(l.settings.interfaces, "^lo,docker");
  EXPECT_EQ(l.settings.address_family, "AF_INET6");
  l = load({"NCCL_SOCKET_IFNAME=eth", "MEGASCALE_INTERFACES==ib0"});
  EXPECT_EQ(l.settings.interfaces, "=ib0");
  l = load({"NCCL_SOCKET_FAMILY=IPv4"});
  ASSERT_EQ(l.complaints.size(), 1u);
  EXPECT_SAYS(l.complaints[0], "NCCL_SOCKET_FAMILY='IPv4'");
}

TEST(Settings, TheDocumentationIsWholeAndMatchesTheStruct) {
  std::set<std::string> names;
  for (const SettingDoc& doc : setting_docs()) {
    EXPECT_TRUE(names.insert(doc.name).second) << doc.name << " is declared twice";
    EXPECT_TRUE(doc.name.starts_with("MEGASCALE_"));
    EXPECT_FALSE(doc.type.empty()) << doc.name;
    EXPECT_FALSE(doc.accepted.empty()) << doc.name;
    EXPECT_TRUE(doc.sentence.ends_with('.')) << doc.name;
    // What is documented as the default must be accepted as a value, and change nothing.
    if (doc.fallback.empty() || doc.fallback == "none" || doc.fallback == "both") continue;
    EXPECT_TRUE(load({doc.name + "=" + doc.fallback}).complaints.empty()) << doc.name << "=" << doc.fallback;
  }
  for (const char* name : {"LINK",
                           "CC",
                           "CONFIG",
                           "RAILS",
                           "SECRET",
                           "SECRET_FILE",
                           "FLAP_TIMEOUT",
                           "FLAP_DETECT",
                           "CONNECT_TIMEOUT",
                           "RETURN_HOLD",
                           "TCP_ALGORITHM",
                           "TCP_SEND_BUFFER",
                           "TCP_RECEIVE_BUFFER",
                           "RATE_LIMIT",
                           "STRIPE",
                           "CHUNK",
                           "EVENTS",
                           "SUMMARY",
                           "LOG",
                           "RANK",
                           "RANKS",
                           "LOCAL_RANK",
                           "RENDEZVOUS"}) {
    EXPECT_EQ(names.count(std::string("MEGASCALE_") + name), 1u) << name;
  }
}

constexpr char kSecret[] = "correct horse battery staple";

TEST(Secret, IsTakenFromTheEnvironmentAndNeverShown) {
  const Scratch scratch;
  // Everything wrong at once, so that every message gets its chance to show too much.
  const std::string config =
      scratch.write("c.toml", "[megascale]\nsecret = [\"" + std::string(kSecret) + "\"]\nx = 1\n");
  const Loaded l =
      load({"MEGASCALE_SECRET=" + std::string(kSecret), "MEGASCALE_SECRETS=" + std::string(kSecret),
            "MEGASCALE_SECRET_FILE=/nowhere", "MEGASCALE_LINK=x", "MEGASCALE_CONFIG=" + config});
  EXPECT_EQ(l.settings.secret, kSecret);
  EXPECT_FALSE(l.settings.secret_unreadable);
  EXPECT_GE(l.complaints.size(), 4u);
  EXPECT_SILENT_ABOUT(joined(l.complaints), "horse");
  for (const SettingDoc& doc : setting_docs()) {
    EXPECT_SILENT_ABOUT(doc.name + doc.fallback + doc.accepted + doc.sentence, "horse");
  }
}

TEST(Secret, IsReadFromAFileWithoutItsNewline) {
  const Scratch scratch;
  const Loaded l = load({"MEGASCALE_SECRET_FILE=" + scratch.write("s", std::string(kSecret) + "\r\n")});
  EXPECT_TRUE(l.complaints.empty()) << joined(l.complaints);
  EXPECT_EQ(l.settings.secret, kSecret);
}

TEST(Secret, AFileThatOthersCanReadIsUsedAndNamed) {
  const Scratch scratch;
  const Loaded l = load({"MEGASCALE_SECRET_FILE=" + scratch.write("s", kSecret, 0644)});
  ASSERT_EQ(l.complaints.size(), 1u);
  EXPECT_SAYS(l.complaints[0], "chmod o-r");
  EXPECT_SILENT_ABOUT(l.complaints[0], "horse");
  EXPECT_EQ(l.settings.secret, kSecret);
}

TEST(Secret, ThatWasAskedForAndCannotBeHadForbidsToStart) {
  const Scratch scratch;
  ASSERT_EQ(mkfifo(scratch.path("fifo").c_str(), 0600), 0);
  for (const std::string& file :
       {scratch.path("missing"), scratch.path("."), scratch.path("fifo"), scratch.write("empty", "\n"),
        scratch.write("large", std::string(4097, 'x')), std::string("/dev/zero")}) {
    const Loaded l = load({"MEGASCALE_SECRET_FILE=" + file});
    EXPECT_TRUE(l.settings.secret_unreadable) << file;
    EXPECT_TRUE(l.settings.secret.empty()) << file;
    ASSERT_EQ(l.complaints.size(), 1u) << file;
    EXPECT_SAYS(l.complaints[0], file.substr(0, 64));
  }
  const Loaded l = load({"MEGASCALE_SECRET=" + std::string(4097, 'x')});
  EXPECT_TRUE(l.settings.secret_unreadable);
  EXPECT_EQ(l.complaints.size(), 1u);
}

TEST(Secret, TheEnvironmentsWins) {
  const Scratch scratch;
  const std::string config = scratch.write("c.toml", "[megascale]\nsecret = \"from the file\"\n");
  const std::string file = scratch.write("s", "from the secret file");
  EXPECT_EQ(load({"MEGASCALE_CONFIG=" + config}).settings.secret, "from the file");
  EXPECT_EQ(load({"MEGASCALE_CONFIG=" + config, "MEGASCALE_SECRET=near"}).settings.secret, "near");
  const Loaded l = load({"MEGASCALE_CONFIG=" + config, "MEGASCALE_SECRET_FILE=" + file});
  EXPECT_EQ(l.settings.secret, "from the secret file");
  EXPECT_SAYS(joined(l.complaints), "MEGASCALE_SECRET_FILE is used");
}

}  // namespace
}  // namespace megascale
