// Lists of hosts as Slurm writes them: "a,b[1-3,7],rack[0-1]n[01-16]".
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace megascale {

inline constexpr size_t kMostHostsInList = 1'000'000;

// In the order of the list; numbers keep their leading zeros, and of several brackets the last counts
// fastest. Throws std::invalid_argument with a sentence that quotes the entry.
std::vector<std::string> expand_host_list(std::string_view);

// By letters, and by numbers where both have one: n2 before n10.
bool name_before(std::string_view, std::string_view);

}  // namespace megascale
