#include "trainer/command/text.h"

#include <fmt/format.h>

#include "trainer/command/commands.h"
#include "trainer/configuration/toml_reader.h"
#include "trainer/data/king_james.h"
#include "trainer/loop/training.h"

namespace megascale::trainer {

std::unique_ptr<TokenFile> open_text(const RunConfig& config) try {
  const std::filesystem::path file =
      config.text == kKingJames ? cached_king_james() : std::filesystem::path(config.text);
  return std::make_unique<TokenFile>(file, least_text(config));
} catch (const std::runtime_error& error) {
  throw ConfigurationError(error.what());
}

void add_text(CLI::App& app, int& exit_code) {
  auto out = std::make_shared<std::string>();
  CLI::App* text = app.add_subcommand("text", "Write the King James Bible, without verse labels, to a file");
  text->add_option("--out", *out, "the file")->required();
  text->footer(
      "It comes from the Debian packages bible-kjv and bible-kjv-text. A configuration reads it with\n"
      "  [data]\n  text = \"FILE\"\nand with text = \"king-james\" needs no file: one is kept in "
      "~/.cache/megascale.");
  text->callback([out, &exit_code] {
    exit_code = guarded([&] {
      write_king_james(*out);
      fmt::print("{}: {} bytes\n", *out, std::filesystem::file_size(*out));
      return 0;
    });
  });
}

}  // namespace megascale::trainer
