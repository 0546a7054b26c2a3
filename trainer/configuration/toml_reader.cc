#include "trainer/configuration/toml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "transport/base/toml.h"

namespace megascale::trainer {

struct TomlReader::Contents {
  std::string file;
  toml::table table;

  const toml::node* find(std::string_view key) const { return table.at_path(key).node(); }
  std::string at(const toml::node* node) const {
    return node ? fmt::format("{}:{}: ", file, node->source().begin.line) : file + ": ";
  }
};

namespace {

constexpr uintmax_t kLargestFile = 1 << 20;  // a configuration is a page, not a data set

const char* kind(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::none:
      return "nothing";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

std::string join(const std::vector<std::string>& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : between) + part;
  return all;
}

std::string text_of(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error)
    throw ConfigurationError(
        fmt::format("cannot read the configuration {}: {}", file.string(), error.message()));
  if (size > kLargestFile)
    throw ConfigurationError(fmt::format("the configuration {} has {} bytes; more than {} is not one",
                                         file.string(), size, kLargestFile));
  std::ifstream stream(file, std::ios::binary);
  std::string text(size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(size)))
    throw ConfigurationError(
        fmt::format("cannot read the configuration {}: {}", file.string(), std::strerror(errno)));
  return text;
}

}  // namespace

TomlReader::TomlReader(const std::filesystem::path& file) : contents_(std::make_unique<Contents>()) {
  contents_->file = file.string();
  ParsedToml parsed = parse_toml(text_of(file));
  if (!parsed.table)
    throw ConfigurationError(
        fmt::format("{}:{}: this is not TOML: {}", file.string(), parsed.line, parsed.description));
  contents_->table = std::move(*parsed.table);
}

TomlReader::~TomlReader() = default;

void TomlReader::complain(std::string_view key, const std::string& text) {
  complaints_.push_back(contents_->at(contents_->find(key)) + text);
}

bool TomlReader::whole_number(std::string_view key, int64_t least, int64_t most, int64_t* value) {
  known_.emplace_back(key);
  const toml::node* node = contents_->find(key);
  if (!node) return false;
  if (!node->is_integer()) {
    complain(key, fmt::format("{} must be a whole number, not {}", key, kind(*node)));
    return false;
  }
  *value = **node->as_integer();
  if (*value >= least && *value <= most) return true;
  complain(key, fmt::format("{} is {}, which is outside {} to {}", key, *value, least, most));
  return false;
}

void TomlReader::read(std::string_view key, size_t* value, size_t least, size_t most) {
  int64_t number = 0;
  if (whole_number(key, static_cast<int64_t>(least), static_cast<int64_t>(most), &number))
    *value = static_cast<size_t>(number);
}

void TomlReader::read_seed(std::string_view key, uint64_t* value) {
  int64_t number = 0;
  if (whole_number(key, 0, std::numeric_limits<int64_t>::max(), &number))
    *value = static_cast<uint64_t>(number);
}

void TomlReader::read(std::string_view key, double* value, double least, double most) {
  known_.emplace_back(key);
  const toml::node* node = contents_->find(key);
  if (!node) return;
  if (!node->is_number()) {
    complain(key, fmt::format("{} must be a number, not {}", key, kind(*node)));
    return;
  }
  const double number = node->value<double>().value_or(std::numeric_limits<double>::quiet_NaN());
  if (number >= least && number <= most) *value = number;
  else complain(key, fmt::format("{} is {}, which is outside {} to {}", key, number, least, most));
}

void TomlReader::read(std::string_view key, bool* value) {
  known_.emplace_back(key);
  const toml::node* node = contents_->find(key);
  if (!node) return;
  if (node->is_boolean()) *value = **node->as_boolean();
  else complain(key, fmt::format("{} must be true or false, not {}", key, kind(*node)));
}

void TomlReader::read(std::string_view key, std::string* value) {
  known_.emplace_back(key);
  const toml::node* node = contents_->find(key);
  if (!node) return;
  if (node->is_string()) *value = **node->as_string();
  else complain(key, fmt::format("{} must be a string, not {}", key, kind(*node)));
}

void TomlReader::finish() {
  auto known = [&](const std::string& key) {
    return std::find(known_.begin(), known_.end(), key) != known_.end();
  };
  auto section_keys = [&](const std::string& section) {
    std::vector<std::string> keys;
    for (const std::string& key : known_)
      if (key.starts_with(section + ".")) keys.push_back(key.substr(section.size() + 1));
    return keys;
  };
  for (const auto& [section, node] : contents_->table) {
    const std::string name(section.str());
    const auto at = fmt::format("{}:{}: ", contents_->file, section.source().begin.line);
    const auto keys = section_keys(name);
    if (keys.empty()) {
      complaints_.push_back(at + fmt::format("unknown key {}", name));
    } else if (!node.is_table()) {
      complaints_.push_back(at + fmt::format("{} must be a table, not {}", name, kind(node)));
    } else {
      for (const auto& [key, unused] : *node.as_table())
        if (!known(name + "." + std::string(key.str())))
          complaints_.push_back(fmt::format("{}:{}: unknown key {}.{}; [{}] has {}", contents_->file,
                                            key.source().begin.line, name, std::string_view(key.str()), name,
                                            join(keys, ", ")));
    }
  }
  if (!complaints_.empty()) throw ConfigurationError(join(complaints_, "\n"));
}

}  // namespace megascale::trainer
