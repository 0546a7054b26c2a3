// Whole files: read within a limit, written whole or not at all.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace megascale {

// `what` is how an error calls it, as "the topology". Throws std::invalid_argument, with the reason, where it
// cannot be read or has more than `most` bytes.
std::string read_file(const std::string& what, const std::string& path, size_t most);

// "-" is standard output; a device or a pipe takes what comes. Throws std::runtime_error with the reason.
void write_file(const std::string& what, const std::string& path, const std::string& text);

// Results for programs; what is no UTF-8 is replaced by U+FFFD.
void write_json(const std::string& path, const nlohmann::ordered_json&);

}  // namespace megascale
