#include "tests/unit/plugin/host/ranks.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "plugin/host/launch.h"

namespace megascale::host {

std::string toy(const std::string& suffix) {
  const char* folder = std::getenv("TOY_FOLDER");
  if (folder == nullptr)
    ADD_FAILURE() << "TOY_FOLDER must say where the toy plugins are; `meson test' sets it";
  return std::string(folder ? folder : ".") + "/libnccl-net-toy" + suffix + ".so";
}
std::string toy(int version) { return toy(std::to_string(version)); }

std::string any_plugin() {
  const char* given = std::getenv("MEGASCALE_TEST_PLUGIN");
  return given != nullptr ? given : toy(12);
}

Variable::Variable(const char* name, const std::string& value) : name_(name) {
  const char* before = std::getenv(name);
  was_set_ = before != nullptr;
  if (was_set_) before_ = before;
  setenv(name, value.c_str(), 1);
}

Variable::~Variable() {
  if (was_set_) {
    setenv(name_.c_str(), before_.c_str(), 1);
  } else {
    unsetenv(name_.c_str());
  }
}

ToyCounters::ToyCounters(int version)
    : library_(dlopen(toy(version).c_str(), RTLD_NOW | RTLD_NOLOAD)),
      counters_(static_cast<const Counters*>(
          library_ ? dlsym(library_, ("toy_counters_v" + std::to_string(version)).c_str()) : nullptr)) {
  if (counters_ == nullptr) throw std::runtime_error("the toy plugin is not loaded");
}
ToyCounters::~ToyCounters() { dlclose(library_); }

std::vector<std::string> errors_of_ranks(int ranks, CommunicatorOptions options,
                                         const std::function<void(Communicator&)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(ranks), "no error");
  options.ranks = ranks;
  if (options.rendezvous.empty()) options.rendezvous = free_rendezvous();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank, mine = options]() mutable {
      mine.rank = rank;
      try {
        const auto communicator = Communicator::create(mine);
        body(*communicator);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void run_ranks(int ranks, CommunicatorOptions options, const std::function<void(Communicator&)>& body) {
  const auto errors = errors_of_ranks(ranks, std::move(options), body);
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(errors[static_cast<size_t>(rank)], "no error") << rank;
}

}  // namespace megascale::host
