// The King James Bible as a training text, from the Debian package bible-kjv: a text that a fresh machine can
// get without a download of ours.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace megascale::trainer {

struct KingJamesOptions {
  std::string program = "bible";  // looked up in PATH unless it has a slash
  int timeout_seconds = 60;
};

// Strips the label ("Ge1:1 ") of each verse. Throws std::runtime_error naming the first line that has none.
std::string strip_verse_labels(std::string_view labelled, size_t* verses);

// Runs the program, strips the labels, checks that all 31,102 verses are there and puts the text at `out`
// whole or not at all. Throws std::runtime_error saying what to install.
void write_king_james(const std::filesystem::path& out, const KingJamesOptions& options = {});

// The text's place in the user's cache ($XDG_CACHE_HOME or ~/.cache), made when it is not there yet.
std::filesystem::path cached_king_james();

}  // namespace megascale::trainer
