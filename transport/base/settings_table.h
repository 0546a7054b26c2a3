// The table of all that a user can set, one row a variable, and what is done with a row: parse, check,
// document. Private to the settings; everybody else reads settings.h.
#pragma once
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "transport/base/settings.h"

namespace megascale {

// Any text that `ok` likes; `shape` says which.
struct TextKind {
  std::string Settings::*target;
  const char* shape = "any text";
  bool (*ok)(std::string_view) = nullptr;
};
// One of some words, "a|b|c"; `unbuilt` are known words that this build refuses by name.
struct ChoiceKind {
  std::string Settings::*target;
  const char* words;
  const char* unbuilt = "";
};
// Two words, the first for false, the second for true.
struct SwitchKind {
  bool Settings::*target;
  const char* off = "0";
  const char* on = "1";
};
struct DurationKind {
  Duration Settings::*target;
  Duration least, most;
};
struct SizeKind {
  Bytes Settings::*target;
  Bytes least, most;
};
struct RateKind {
  Rate Settings::*target;
  Rate least;
};
struct NumberKind {
  int Settings::*target;
  int least, most;
};
// As text, but no message ever shows it.
struct SecretKind {
  std::string Settings::*target;
};

using SettingKind =
    std::variant<TextKind, ChoiceKind, SwitchKind, DurationKind, SizeKind, RateKind, NumberKind, SecretKind>;

struct SettingRow {
  const char* name;  // without MEGASCALE_
  SettingKind kind;
  const char* sentence;
  const char* also = "";           // a familiar variable that is honoured when ours is not set
  bool in_file = true;             // may also be a key of the file
  const char* fallback = nullptr;  // how the default is written, when printing it would mislead
};

std::span<const SettingRow> setting_rows();

std::string variable_of(const SettingRow&);  // MEGASCALE_FLAP_TIMEOUT
std::string key_of(const SettingRow&);       // flap_timeout
std::string accepted_by(const SettingRow&);  // "100ms to 24h"

// Sets the row's member, or leaves it and answers what is wrong with `text`. `where` names the variable, or
// the file, line and key, for the message.
std::optional<std::string> apply(const SettingRow&, std::string_view text, Settings&,
                                 const std::string& where);

// `text` for a message: what is not printable ASCII becomes '?', and what is over `limit` bytes "...".
std::string one_line(std::string_view text, size_t limit);
// The same in quotes, at most 64 bytes.
std::string quoted(std::string_view text);

// The nearest of the known names, when one is near enough to have been meant: " (did you mean x?)", else
// nothing.
std::string did_you_mean(std::string_view unknown, std::span<const std::string> known);

// settings_file.cc: the [megascale] and [cc] tables of a TOML text. `name` is the file's, for messages.
void apply_toml(std::string_view text, const std::string& name, Settings&,
                std::vector<std::string>* complaints);

// small_file.cc: the whole of a regular file of at most `limit` bytes, or why it cannot be had.
struct SmallFile {
  std::string text;
  bool others_may_read = false;
  std::string error;  // empty: all is well
};
SmallFile read_small_file(const std::string& path, size_t limit);

}  // namespace megascale
