#include "fabric_tools/bench/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace megascale {
namespace {

using testing::HasSubstr;

TEST(Hosts, EachRankGetsItsPlace) {
  BenchOptions o;
  o.hosts = {"a:2", "b"};
  const auto commands = rank_commands(o, "/opt/bin/megascale-fabric", {"bench", "all_reduce"});
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[1].host, "a");
  EXPECT_EQ(commands[1].command,
            "env MEGASCALE_RANK=1 MEGASCALE_RANKS=3 MEGASCALE_LOCAL_RANK=1 MEGASCALE_RENDEZVOUS=a:29400 "
            "/opt/bin/megascale-fabric bench all_reduce");
  EXPECT_EQ(commands[2].host, "b");
  EXPECT_THAT(commands[2].command, HasSubstr("MEGASCALE_RANK=2 MEGASCALE_RANKS=3 MEGASCALE_LOCAL_RANK=0"));
}

TEST(Hosts, RendezvousCanBeChosen) {
  BenchOptions o;
  o.hosts = {"a"};
  o.rendezvous = "10.0.0.1:7";
  EXPECT_THAT(rank_commands(o, "p", {})[0].command, HasSubstr("MEGASCALE_RENDEZVOUS=10.0.0.1:7 "));
}

TEST(Hosts, OddEntriesAreRefused) {
  for (const char* entry : {"", ":2", "a:0", "a:x", "a:2x", "-oProxyCommand=x"}) {
    BenchOptions o;
    o.hosts = {entry};
    EXPECT_THROW(rank_commands(o, "p", {}), std::invalid_argument) << entry;
  }
}

TEST(Hosts, ArgumentsSurviveTwoShells) {
  BenchOptions o;
  o.hosts = {"here"};
  const auto commands = rank_commands(o, "printf", {"%s|", "it's", "a b", "$HOME", ""});
  // The template stands in for ssh: what comes after it is for a shell at the other end.
  const std::string script = "MEGASCALE_RANK=0\n" + launch_script(commands, "env FOR={host} sh -c");
  FILE* pipe = popen(("sh -c " + shell_quoted(script)).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char text[256] = {};
  const size_t length = fread(text, 1, sizeof text - 1, pipe);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(std::string(text, length), "it's|a b|$HOME||");
}

TEST(Hosts, TemplateMustNameTheHost) {
  EXPECT_THROW(launch_script({{"a", "x"}}, "ssh"), std::invalid_argument);
}

}  // namespace
}  // namespace megascale
