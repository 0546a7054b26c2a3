#include "fabric_tools/bench/hosts.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace megascale {
namespace {

constexpr const char* kPort = "29400";

struct Place {
  std::string host;
  int ranks;
};

Place place_of(const std::string& entry) {
  const auto wrong = [&](const char* why) {
    return std::invalid_argument("`" + entry + "' in --hosts is no host: " + why +
                                 "; write name or name:ranks");
  };
  const size_t colon = entry.rfind(':');
  Place place{entry.substr(0, colon), 1};
  if (colon != std::string::npos) {
    const char* begin = entry.data() + colon + 1;
    const char* end = entry.data() + entry.size();
    const auto [stopped, error] = std::from_chars(begin, end, place.ranks);
    if (error != std::errc{} || stopped != end || place.ranks < 1 || place.ranks > 1024) {
      throw wrong("the number of ranks must be 1 to 1024");
    }
  }
  if (place.host.empty() || place.host.front() == '-')
    throw wrong("the name is empty or looks like an option");
  return place;
}

}  // namespace

std::string shell_quoted(const std::string& text) {
  static constexpr const char* plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted(1, '\'');
  for (char c : text) {
    if (c == '\'') {
      quoted.append("'\\''");
    } else {
      quoted.push_back(c);
    }
  }
  quoted.push_back('\'');
  return quoted;
}

std::vector<RankCommand> rank_commands(const BenchOptions& options, const std::string& program,
                                       const std::vector<std::string>& arguments) {
  std::vector<Place> places;
  int ranks = 0;
  for (const std::string& entry : options.hosts) {
    places.push_back(place_of(entry));
    ranks += places.back().ranks;
  }
  if (places.empty()) throw std::invalid_argument("--hosts names no host");
  std::string rendezvous = options.rendezvous;
  if (rendezvous.empty()) rendezvous.append(places.front().host).append(":").append(kPort);
  std::vector<RankCommand> commands;
  for (const Place& place : places) {
    for (int local = 0; local < place.ranks; ++local) {
      std::string command = fmt::format(
          "env MEGASCALE_RANK={} MEGASCALE_RANKS={} MEGASCALE_LOCAL_RANK={} MEGASCALE_RENDEZVOUS={} {}",
          commands.size(), ranks, local, shell_quoted(rendezvous), shell_quoted(program));
      for (const std::string& argument : arguments) command.append(" ").append(shell_quoted(argument));
      commands.push_back({place.host, command});
    }
  }
  return commands;
}

std::string launch_script(const std::vector<RankCommand>& commands, const std::string& launch_template) {
  static const std::string mark = "{host}";
  if (launch_template.find(mark) == std::string::npos) {
    throw std::invalid_argument("--launch must say where the host goes, e.g. 'ssh {host}', not `" +
                                launch_template + "'");
  }
  std::string script = "case $MEGASCALE_RANK in\n";
  for (size_t rank = 0; rank < commands.size(); ++rank) {
    std::string launch = launch_template;
    for (size_t at = 0; (at = launch.find(mark, at)) != std::string::npos; at += commands[rank].host.size()) {
      launch.replace(at, mark.size(), commands[rank].host);
    }
    script +=
        std::to_string(rank) + ") exec " + launch + " " + shell_quoted(commands[rank].command) + " ;;\n";
  }
  return script + "esac\n";
}

}  // namespace megascale
