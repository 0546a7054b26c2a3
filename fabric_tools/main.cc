#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <new>

#include "fabric_tools/command.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Brings a fabric up, measures it and breaks it on purpose. Everything that moves data goes through an "
      "NCCL network plugin, this project's own or anyone's.",
      "megascale-fabric");
  app.set_version_flag("--version", MEGASCALE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 all is well, 1 what was checked is not, 2 called wrongly, 3 could not be measured.");
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  int exit_code = megascale::kAllWell;
  megascale::add_bench(app, arguments, exit_code);
  megascale::add_env(app, exit_code);
  megascale::add_lab(app, exit_code);
  megascale::add_topology(app, exit_code);
  megascale::add_place(app, exit_code);
  megascale::add_sim(app, exit_code);
  megascale::add_cc_compare(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? megascale::kAllWell : megascale::kCalledWrongly;
  } catch (const std::exception& error) {
    const std::vector<CLI::App*> called = app.get_subcommands();
    const bool full = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    std::fprintf(stderr, "megascale-fabric%s: %s\n",
                 called.empty() ? "" : (" " + called.front()->get_name()).c_str(),
                 full ? "there is not enough memory" : error.what());
    const bool wrongly = dynamic_cast<const std::invalid_argument*>(&error) != nullptr;
    return wrongly ? megascale::kCalledWrongly : megascale::kNotMeasured;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const int exit_code = run(argc, argv);
  const bool written = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || exit_code == megascale::kCalledWrongly) return exit_code;
  std::fputs("megascale-fabric: standard output cannot be written\n", stderr);
  return megascale::kNotMeasured;
}
