// megascale-train: trains a small GPT over an NCCL network plugin.
#include <fmt/format.h>

#include <cstdlib>

#include "trainer/command/commands.h"
#include "trainer/configuration/toml_reader.h"

namespace megascale::trainer {

int explain_failure() {
  const char* rank = std::getenv("MEGASCALE_RANK");
  const std::string who =
      rank && *rank ? fmt::format("megascale-train: rank {}: ", rank) : "megascale-train: ";
  try {
    throw;
  } catch (const ConfigurationError& error) {
    fmt::print(stderr, "{}{}\n", who, error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}{}\n", who, error.what());
    return 1;
  }
}

}  // namespace megascale::trainer

int main(int argc, char** argv) {
  using namespace megascale::trainer;
  CLI::App app(
      "Trains a GPT by data parallelism, its gradients carried by an NCCL network plugin.\n"
      "Start with: megascale-train run --config configs/train/quickstart.toml --ranks 4",
      "megascale-train");
  app.set_version_flag("--version", MEGASCALE_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  add_run(app, exit_code);
  add_inspect(app, exit_code);
  add_text(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}
