// megascale-train as people run it: real processes, a real plugin. TRAINER_COMMAND and TRAINER_PLUGIN name
// them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "plugin/host/launch.h"
#include "tests/unit/trainer/command/process.h"
#include "tests/unit/transport/base/scratch.h"

namespace megascale::trainer {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLong = 120s;  // what takes a second or two on an idle machine

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value)
    throw std::runtime_error(std::string(name) + " is not set: run this test through meson");
  return value;
}

class Command : public testing::Test {
 protected:
  Command() {
    std::string text;
    for (int i = 0; i < 3000; ++i)
      text += std::to_string(i % 60) + " times " + std::to_string(i / 60) + " is " +
              std::to_string(i % 60 * (i / 60)) + ". ";
    write("text", text);
    write("run.toml", kSmall);
  }

  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  std::string read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(folder / name).rdbuf();
    return text.str();
  }

  struct Result {
    int code;
    std::string output;
  };
  std::vector<std::string> command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), variable("TRAINER_COMMAND"));
    return arguments;
  }
  // No test hears the launch contract of whatever runs it.
  std::vector<std::string> environment(std::vector<std::string> more = {}) {
    for (const char* name :
         {"MEGASCALE_RANK", "MEGASCALE_RANKS", "MEGASCALE_LOCAL_RANK", "MEGASCALE_RENDEZVOUS"}) {
      const bool set = std::any_of(more.begin(), more.end(), [&](const auto& entry) {
        return entry.starts_with(std::string(name) + "=");
      });
      if (!set) more.emplace_back(name);
    }
    return more;
  }
  Result run(const std::vector<std::string>& arguments, const std::vector<std::string>& variables = {}) {
    Process process(command(arguments), environment(variables), folder);
    const int code = process.wait(kLong);
    return {code, process.output()};
  }
  // `run` with the configuration and the plugin given.
  std::vector<std::string> training(int ranks, std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"run",
                                    "--config",
                                    (folder / "run.toml").string(),
                                    "--ranks",
                                    std::to_string(ranks),
                                    "--plugin",
                                    variable("TRAINER_PLUGIN")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string losses(int ranks, const std::string& file) {
    const Result result = run(training(ranks, {"--losses", (folder / file).string()}));
    EXPECT_EQ(result.code, 0) << result.output;
    return read(file);
  }
  static std::vector<double> numbers(const std::string& lines) {
    std::vector<double> result;
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) result.push_back(std::strtod(line.c_str(), nullptr));
    return result;
  }

  static constexpr const char* kSmall =
      "[model]\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 32\n[data]\ntext = 'text'\n[train]\nsteps = "
      "15\nbatch = 8\n"
      "threads = 1\n[optimizer]\nrate = 3e-3\nwarmup = 3\n[parallel]\nbucket_bytes = 16384\n"
      "[report]\nvalidation_every = 5\nvalidation_sequences = 8\n";
  const Scratch scratch;
  const fs::path folder = scratch.directory();
};

TEST_F(Command, ProcessesReachTheLossesOfOneAndRepeatThemselves) {
  const std::string one = losses(1, "one");
  const std::vector<double> wanted = numbers(one);
  ASSERT_EQ(wanted.size(), 15U);
  EXPECT_LT(wanted.back(), wanted.front() - 1);
  for (const int ranks : {2, 4}) {
    const std::string first = losses(ranks, "first"), second = losses(ranks, "second");
    EXPECT_EQ(first, second) << ranks << " ranks gave other bits the second time";
    const std::vector<double> got = numbers(first);
    ASSERT_EQ(got.size(), wanted.size());
    // Justified where the same is tested without a network: tests/unit/trainer/loop.
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i], 5e-6) << ranks << " ranks, step " << i + 1;
  }
}

TEST_F(Command, ReportsWhatItDid) {
  const Result result = run(training(2, {"--json", (folder / "json").string(), "--steps", "7"}));
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_NE(result.output.find("step 7/7"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("validation"), std::string::npos);
  EXPECT_NE(result.output.find("7 steps\n"), std::string::npos) << "no curve:\n" << result.output;
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos) << "escapes outside a terminal";
  const auto json = nlohmann::json::parse(read("json"));
  EXPECT_EQ(json["losses"].size(), 7U);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["config"]["steps"], 7);
  EXPECT_EQ(json["validation"].back()["step"], 7);
  EXPECT_GT(json["tokens_per_second"], 0);
}

TEST_F(Command, AKilledRankIsNamedByTheOthers) {
  std::string toml = kSmall;
  write("run.toml", toml.replace(toml.find("batch = 8"), 9, "batch = 9"));
  const std::string rendezvous = host::free_rendezvous();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::string> arguments =
        training(3, {"--steps", "1000000", "--losses", (folder / "losses").string()});
    ranks.push_back(std::make_unique<Process>(
        command(arguments),
        environment({"MEGASCALE_RANK=" + std::to_string(rank), "MEGASCALE_RANKS=3",
                     "MEGASCALE_LOCAL_RANK=" + std::to_string(rank), "MEGASCALE_RENDEZVOUS=" + rendezvous}),
        folder));
  }
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (numbers(read("losses")).size() < 3 && std::chrono::steady_clock::now() < deadline &&
         ranks[0]->running())
    std::this_thread::sleep_for(10ms);
  ASSERT_GE(numbers(read("losses")).size(), 3U) << ranks[0]->output();
  ranks[1]->signal(SIGKILL);
  for (const int rank : {0, 2}) {
    auto& survivor = *ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(survivor.wait(30s), 1) << survivor.output();
    EXPECT_NE(survivor.output().find("rank 1"), std::string::npos) << survivor.output();
  }
}

TEST_F(Command, WrongConfigurationsAreExplained) {
  auto complaint = [&](const std::string& toml, int ranks = 1) {
    write("run.toml", toml);
    const Result result = run(training(ranks));
    EXPECT_EQ(result.code, 2) << toml << result.output;
    return result.output;
  };
  EXPECT_NE(complaint("[model\n").find("run.toml:1: this is not TOML"), std::string::npos);
  EXPECT_NE(complaint("[train]\nstpes = 3\n").find("run.toml:2: unknown key train.stpes"), std::string::npos);
  EXPECT_NE(complaint("[train]\nsteps = 0\n").find("run.toml:2: train.steps is 0"), std::string::npos);
  EXPECT_NE(complaint("[data]\ntext = 'nowhere'\n").find("nowhere: No such file"), std::string::npos);
  write("short", "In the beginning");
  EXPECT_NE(complaint("[data]\ntext = 'short'\n").find("it has 16 bytes"), std::string::npos);
  EXPECT_NE(complaint("[data]\ntext = 'text'\n[train]\nbatch = 4\n", 3).find("does not divide by 3 ranks"),
            std::string::npos);
}

TEST_F(Command, WrongCallsAreExplained) {
  auto code = [&](const std::vector<std::string>& arguments) { return run(arguments).code; };
  EXPECT_EQ(code({}), 2);
  EXPECT_EQ(code({"dance"}), 2);
  EXPECT_EQ(code({"run"}), 2);
  EXPECT_EQ(code(training(0)), 2);
  EXPECT_EQ(code(training(1, {"--steps", "-1"})), 2);
  EXPECT_EQ(code({"run", "--config", "/nonexistent.toml"}), 2);
  EXPECT_EQ(code(training(1, {"--losses", "/nonexistent/folder/file"})), 2);
  const Result bare = run({"run"});
  EXPECT_NE(bare.output.find("--config is required"), std::string::npos) << bare.output;
  EXPECT_LE(std::count(bare.output.begin(), bare.output.end(), '\n'), 2)
      << "what is wrong, not buried in help: " << bare.output;
  EXPECT_EQ(code({"--help"}), 0);
  EXPECT_EQ(code({"run", "--help"}), 0);
  const Result half = run({"run", "--config", (folder / "run.toml").string()}, {"MEGASCALE_RANK=0"});
  EXPECT_EQ(half.code, 2) << half.output;
  EXPECT_NE(half.output.find("MEGASCALE_RANKS"), std::string::npos) << half.output;
}

TEST_F(Command, AMissingPluginIsNamed) {
  const Result result = run({"run", "--config", (folder / "run.toml").string(), "--ranks", "2", "--plugin",
                             "/nonexistent/plugin.so"});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_NE(result.output.find("/nonexistent/plugin.so"), std::string::npos) << result.output;
}

TEST_F(Command, TheKingJamesTextNeedsItsProgram) {
  write("run.toml", "[train]\nsteps = 1\n");
  const std::vector<std::string> bare = {"PATH=" + folder.string(), "XDG_CACHE_HOME=" + folder.string()};
  const Result missing = run(training(1), bare);
  EXPECT_EQ(missing.code, 2) << missing.output;
  EXPECT_NE(missing.output.find("apt-get install bible-kjv"), std::string::npos) << missing.output;
  const Result text = run({"text", "--out", (folder / "kjv").string()}, bare);
  EXPECT_EQ(text.code, 1) << text.output;
  EXPECT_FALSE(fs::exists(folder / "kjv"));
}

TEST_F(Command, InspectCounts) {
  const Result result = run({"inspect", "--config", (folder / "run.toml").string(), "--ranks", "4", "--json",
                             (folder / "json").string()});
  ASSERT_EQ(result.code, 0) << result.output;
  const auto json = nlohmann::json::parse(read("json"));
  // By hand: 256*32 + 32*32 + 2 (12*32^2 + 13*32) + 2*32 parameters.
  EXPECT_EQ(json["parameters"], 34688);
  EXPECT_EQ(json["gradient_bytes"], 4 * 34688);
  EXPECT_EQ(json["sent_bytes"], 1.5 * 4 * 34688);
  EXPECT_NE(result.output.find("34688"), std::string::npos);
}

}  // namespace
}  // namespace megascale::trainer
