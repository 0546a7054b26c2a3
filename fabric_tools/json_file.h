// Results for programs: one JSON document in a file, written whole or not at all. (A device or a pipe takes
// what comes.)
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace megascale {

// "-" is standard output. Throws std::runtime_error naming the file.
void write_json(const std::string& path, const nlohmann::ordered_json&);

}  // namespace megascale
