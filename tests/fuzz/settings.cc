// Fuzzes what a user can set. An input that begins with "env\n" is an environment, a variable a line; every
// other one is the text of a TOML file. Nothing crashes, every value stays in its range, each complaint is
// one short line, and a secret is in none of them.
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"
#include "transport/base/settings_table.h"

using namespace megascale;

namespace {

constexpr std::string_view kSecret = "zQ7wX";

void check(const Settings& s, const std::vector<std::string>& complaints, bool secret_is_ours) {
  must(s.flap_timeout >= 100ms && s.flap_timeout <= 24h, "a timeout out of range");
  must(s.chunk >= 4096 && s.chunk <= 1u << 30, "a chunk out of range");
  must(s.rate_limit.bits_per_second >= 1e6, "a rate out of range");
  must(s.link == "auto" || s.link == "tcp", "an unknown link");
  must(s.rank >= -1 && s.ranks >= 0, "a rank out of range");
  for (const std::string& c : complaints) {
    must(c.size() < 1000, "a long complaint");
    must(c.find_first_of("\n\r\x1b") == std::string::npos, "a complaint of several lines");
    must(!secret_is_ours || c.find(kSecret) == std::string::npos, "a secret in a complaint");
  }
}

void read_environment(std::string_view text) {
  std::vector<std::string> environment = {"MEGASCALE_SECRET=" + std::string(kSecret)};
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    // A fuzzer must not choose which files are opened.
    if (line.starts_with("MEGASCALE_CONFIG=") || line.starts_with("MEGASCALE_SECRET")) continue;
    environment.emplace_back(line);
  }
  std::vector<std::string> complaints;
  const Settings s = load_settings(environment, &complaints);
  must(s.secret == kSecret, "the secret was lost");
  check(s, complaints, true);
}

void read_toml(std::string_view text) {
  {
    Settings s;
    std::vector<std::string> complaints;
    apply_toml(text, "fuzz.toml", s, &complaints);
    check(s, complaints, false);
  }
  // The same behind a secret: whatever comes after it, however broken, the secret is not shown.
  Settings s;
  std::vector<std::string> complaints;
  const std::string with_secret = "[megascale]\nsecret = '" + std::string(kSecret) + "'" + std::string(text);
  apply_toml(with_secret, "fuzz.toml", s, &complaints);
  check(s, complaints, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.find(kSecret) != std::string_view::npos) return 0;
  if (text.starts_with("env\n")) read_environment(text.substr(4));
  else read_toml(text);
  return 0;
}
