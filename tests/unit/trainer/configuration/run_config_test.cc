// What a configuration file may say, and what is said to those who get it wrong.
#include "trainer/configuration/run_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "trainer/configuration/toml_reader.h"

namespace megascale::trainer {
namespace {

namespace fs = std::filesystem;

class Configuration : public testing::Test {
 protected:
  ~Configuration() override { fs::remove(file); }

  RunConfig read(const std::string& text) {
    std::ofstream(file) << text;
    return read_run_config(file);
  }
  // The complaint about this text, without the file's name.
  std::string complaint(const std::string& text) {
    try {
      read(text);
    } catch (const ConfigurationError& error) {
      std::string all = error.what();
      for (size_t at; (at = all.find(file.string())) != std::string::npos;)
        all.replace(at, file.string().size(), "FILE");
      return all;
    }
    return "none";
  }

  fs::path file = fs::temp_directory_path() / ("run_config_test_" + std::to_string(getpid()) + ".toml");
};

TEST_F(Configuration, GivesWhatTheFileSaysAndDefaultsElsewhere) {
  const RunConfig config = read(
      "[model]\nlayers = 2\nwidth = 64\ntied = false\n[data]\ntext = 'some/text'\n[train]\nseed = 9\n"
      "[optimizer]\nrate = 0.003\nclip = 2\n[parallel]\nbucket_bytes = 8192\n[report]\nvalidation_every = "
      "0\n");
  EXPECT_EQ(config.model.layers, 2U);
  EXPECT_EQ(config.model.width, 64U);
  EXPECT_EQ(config.model.heads, RunConfig{}.model.heads);
  EXPECT_FALSE(config.model.tied);
  EXPECT_EQ(config.text, (file.parent_path() / "some/text").string());
  EXPECT_EQ(config.seed, 9U);
  EXPECT_EQ(config.rate, 0.003);
  EXPECT_EQ(config.adamw.clip, 2);  // a whole number is a number
  EXPECT_EQ(config.bucket_bytes, 8192U);
  EXPECT_EQ(config.validation_every, 0U);
  EXPECT_EQ(read("").text, kKingJames);
}

TEST_F(Configuration, MalformedTomlIsNamedWithItsLine) {
  const std::string text = complaint("[model]\nlayers = = 2\n");
  EXPECT_NE(text.find("FILE:2: this is not TOML"), std::string::npos) << text;
  EXPECT_NE(complaint("[model\n").find("FILE:1:"), std::string::npos);
  EXPECT_NE(complaint("[model]\nlayers = 1\nlayers = 2\n").find("FILE:3:"), std::string::npos);
  EXPECT_NE(complaint(std::string("[model]\nlayers = \0\n", 18)), "none");
  EXPECT_NE(complaint("[model]\n\n[[[\nlayers = 2\n").find("FILE:3:"), std::string::npos)
      << "a text that the parser gives up on";
  EXPECT_NE(complaint("[model]\n\u00fd = 2\n").find("FILE:2:"), std::string::npos)
      << "a letter that cannot stand outside quotes";
}

TEST_F(Configuration, EveryMistakeIsNamedWithItsLine) {
  const std::string text = complaint(
      "[model]\nlayers = 0\nwidht = 64\nheads = \"4\"\n[train]\nsteps = 2.5\n[optimizer]\nrate = "
      "-1\n[trian]\nsteps = 3\n");
  EXPECT_NE(text.find("FILE:2: model.layers is 0, which is outside 1 to 1024"), std::string::npos) << text;
  EXPECT_NE(text.find("FILE:3: unknown key model.widht; [model] has layers, heads, width, context, tied"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("FILE:4: model.heads must be a whole number, not a string"), std::string::npos) << text;
  EXPECT_NE(text.find("FILE:6: train.steps must be a whole number, not a number"), std::string::npos) << text;
  EXPECT_NE(text.find("FILE:8: optimizer.rate is -1, which is outside 0 to 10"), std::string::npos) << text;
  EXPECT_NE(text.find("FILE:9: unknown key trian"), std::string::npos) << text;
}

TEST_F(Configuration, ValuesOfTheWrongKindAreRefused) {
  EXPECT_NE(complaint("model = 3\n").find("model must be a table"), std::string::npos);
  EXPECT_NE(complaint("[[model]]\nlayers = 1\n").find("model must be a table"), std::string::npos);
  EXPECT_NE(complaint("[model]\ntied = 1\n").find("true or false"), std::string::npos);
  EXPECT_NE(complaint("[data]\ntext = 1\n").find("a string"), std::string::npos);
  EXPECT_NE(complaint("[data]\ntext = ''\n").find("empty"), std::string::npos);
  EXPECT_NE(complaint("[optimizer]\nrate = nan\n").find("outside"), std::string::npos);
  EXPECT_NE(complaint("[optimizer]\nrate = inf\n").find("outside"), std::string::npos);
  EXPECT_NE(complaint("[train]\nseed = -1\n").find("outside"), std::string::npos);
  EXPECT_NE(complaint("[train]\nsteps = 99999999999999999999\n").find("FILE:2"), std::string::npos);
  EXPECT_NE(complaint("[train]\nseed.deep = 1\n").find("whole number, not a table"), std::string::npos);
  EXPECT_NE(complaint("[optimizer]\nrate = 1e-4\nfinal_rate = 1e-3\n").find("FILE:3: optimizer.final_rate"),
            std::string::npos);
  EXPECT_NE(
      complaint("[model]\nwidth = 10\nheads = 4\n").find("FILE:2: model.width is 10, which does not divide"),
      std::string::npos);
}

TEST_F(Configuration, AMissingFileIsAnError) {
  EXPECT_THROW(read_run_config("/nonexistent/run.toml"), ConfigurationError);
  EXPECT_THROW(read_run_config(fs::temp_directory_path()), ConfigurationError);
}

TEST(CheckRanks, NamesWhatDoesNotDivide) {
  RunConfig config;
  config.batch = 12;
  EXPECT_NO_THROW(check_ranks(config, 4));
  EXPECT_THROW(check_ranks(config, 5), ConfigurationError);
  EXPECT_THROW(check_ranks(config, 24), ConfigurationError);
  config.micro_batch = 2;
  EXPECT_NO_THROW(check_ranks(config, 2));
  EXPECT_THROW(check_ranks(config, 4), ConfigurationError);  // 3 sequences a rank
  config.micro_batch = 3;
  EXPECT_NO_THROW(check_ranks(config, 4));
  config.validation_sequences = 2;
  EXPECT_THROW(check_ranks(config, 4), ConfigurationError);
}

TEST(Fingerprint, ChangesWithEverythingThatDecidesALoss) {
  const RunConfig base;
  auto differs = [&](auto change) {
    RunConfig other = base;
    change(&other);
    return other.fingerprint() != base.fingerprint();
  };
  EXPECT_FALSE(differs([](RunConfig*) {}));
  EXPECT_FALSE(differs([](RunConfig* c) { c->threads = 2; }));  // may differ from host to host
  EXPECT_TRUE(differs([](RunConfig* c) { c->seed++; }));
  EXPECT_TRUE(differs([](RunConfig* c) { c->rate *= 2; }));
  EXPECT_TRUE(differs([](RunConfig* c) { c->batch *= 2; }));
  EXPECT_TRUE(differs([](RunConfig* c) { c->model.tied = !c->model.tied; }));
  EXPECT_TRUE(differs([](RunConfig* c) { c->bucket_bytes *= 2; }));
}

}  // namespace
}  // namespace megascale::trainer
