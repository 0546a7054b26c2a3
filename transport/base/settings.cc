#include "transport/base/settings.h"

#include <unistd.h>

#include <algorithm>

#include "transport/base/settings_table.h"

namespace megascale {
namespace {

constexpr std::string_view kPrefix = "MEGASCALE_";
constexpr size_t kMaxConfig = 1 << 20;
constexpr size_t kMaxSecret = 4096;

struct Variable {
  std::string name, value;
};

// An empty value counts as not set, as `export X=` is meant.
std::vector<Variable> variables_of(std::span<const std::string> environment) {
  std::vector<Variable> all;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals + 1 == entry.size()) continue;
    all.push_back({entry.substr(0, equals), entry.substr(equals + 1)});
  }
  return all;
}

const Variable* lookup(const std::vector<Variable>& all, std::string_view name) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const Variable& v) { return v.name == name; });
  return it == all.end() ? nullptr : &*it;
}

void name_unknown(const std::vector<Variable>& all, std::vector<std::string>* complaints) {
  std::vector<std::string> known;
  for (const SettingRow& row : setting_rows()) known.push_back(variable_of(row));
  for (const Variable& v : all) {
    if (!v.name.starts_with(kPrefix) || std::find(known.begin(), known.end(), v.name) != known.end())
      continue;
    complaints->push_back("the environment variable " + quoted(v.name) + " is unknown" +
                          did_you_mean(v.name, known) + "; `megascale-fabric env` lists all. It is ignored.");
  }
}

void apply_environment(const std::vector<Variable>& all, Settings& s, std::vector<std::string>* complaints) {
  for (const SettingRow& row : setting_rows()) {
    const Variable* v = lookup(all, variable_of(row));
    if (!v && *row.also) v = lookup(all, row.also);
    if (!v) continue;
    if (auto wrong = apply(row, v->value, s, v->name)) complaints->push_back(*wrong);
  }
}

void apply_config_file(Settings& s, std::vector<std::string>* complaints) {
  const SmallFile file = read_small_file(s.config, kMaxConfig);
  if (!file.error.empty()) {
    complaints->push_back("reading MEGASCALE_CONFIG file " + quoted(s.config) + " failed: " + file.error +
                          ". Nothing of it is used.");
    s.secret_unreadable = true;  // it may have held one
    return;
  }
  apply_toml(file.text, s.config, s, complaints);
  if (!s.secret.empty() && file.others_may_read) {
    complaints->push_back("MEGASCALE_CONFIG file " + quoted(s.config) +
                          " holds a secret and every user of this host can read it: chmod o-r it.");
  }
}

void read_secret(Settings& s, std::vector<std::string>* complaints) {
  const auto unusable = [&](const std::string& why) {
    s.secret_unreadable = true;
    complaints->push_back("reading MEGASCALE_SECRET_FILE " + quoted(s.secret_file) + " failed: " + why +
                          ". Without the secret that was asked for, no connection is made.");
  };
  s.secret.clear();
  const SmallFile file = read_small_file(s.secret_file, kMaxSecret);
  if (!file.error.empty()) return unusable(file.error);
  if (file.others_may_read) {
    complaints->push_back("MEGASCALE_SECRET_FILE " + quoted(s.secret_file) +
                          " can be read by every user of this host: chmod o-r it.");
  }
  s.secret = file.text;
  while (s.secret.ends_with('\n') || s.secret.ends_with('\r')) s.secret.pop_back();
  if (s.secret.empty()) unusable("it is empty");
}

// The nearer one wins: the environment's secret, the environment's file, the configuration's file, its
// secret.
void settle_secret(const Settings& from_file, const std::vector<Variable>& all, Settings& s,
                   std::vector<std::string>* complaints) {
  const Variable* text = lookup(all, "MEGASCALE_SECRET");
  const bool both = text ? lookup(all, "MEGASCALE_SECRET_FILE") != nullptr
                         : !from_file.secret.empty() && !s.secret_file.empty();
  if (both) {
    complaints->push_back(std::string("a secret and a secret file are both set; ") +
                          (text ? "MEGASCALE_SECRET" : "MEGASCALE_SECRET_FILE") + " is used.");
  }
  if (text) {
    s.secret_unreadable = text->value.size() > kMaxSecret;  // apply() has complained
    if (s.secret_unreadable) s.secret.clear();
  } else if (!s.secret_file.empty()) {
    s.secret_unreadable = false;
    read_secret(s, complaints);
  }
}

}  // namespace

Settings load_settings(std::span<const std::string> environment, std::vector<std::string>* complaints) {
  std::vector<std::string> unheard;
  if (!complaints) complaints = &unheard;
  const std::vector<Variable> all = variables_of(environment);
  name_unknown(all, complaints);

  Settings s;
  if (const Variable* config = lookup(all, "MEGASCALE_CONFIG")) {
    s.config = config->value;
    apply_config_file(s, complaints);
  }
  const Settings from_file = s;
  apply_environment(all, s, complaints);
  if (s.cc == "auto" && !s.cc_parameters.empty()) {
    complaints->push_back(
        "the [cc] table of MEGASCALE_CONFIG file " + quoted(s.config) +
        " has parameters, but MEGASCALE_CC=auto leaves the rate to the kernel on tcp and has "
        "none; MEGASCALE_RATE_LIMIT caps it. The table is ignored.");
  }
  settle_secret(from_file, all, s, complaints);
  return s;
}

Settings load_settings(std::vector<std::string>* complaints) {
  std::vector<std::string> environment;
  for (char** entry = environ; entry && *entry; ++entry) environment.emplace_back(*entry);
  return load_settings(environment, complaints);
}

}  // namespace megascale
