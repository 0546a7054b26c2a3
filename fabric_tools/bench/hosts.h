// A benchmark on several hosts: the command that each rank is started with, printed or carried out.
#pragma once
#include <string>
#include <vector>

#include "fabric_tools/bench/options.h"

namespace megascale {

struct RankCommand {
  std::string host;
  std::string command;  // for a shell there
};

// One for each rank; an entry of `hosts` is a name, or name:ranks. Throws std::invalid_argument.
std::vector<RankCommand> rank_commands(const BenchOptions&, const std::string& program,
                                       const std::vector<std::string>& arguments);

// A script that carries out the command of the rank that MEGASCALE_RANK says, by the template, in which
// {host} stands for the host: "ssh {host}".
std::string launch_script(const std::vector<RankCommand>&, const std::string& launch_template);

std::string shell_quoted(const std::string&);

}  // namespace megascale
