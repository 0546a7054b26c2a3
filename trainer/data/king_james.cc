#include "trainer/data/king_james.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

extern char** environ;

namespace megascale::trainer {
namespace {

constexpr size_t kVerses = 31102;
constexpr size_t kMostBytes = 64 << 20;  // the text has 4.4 million: more is some other program's output

struct Descriptor {
  int fd = -1;
  ~Descriptor() { reset(); }
  void reset() {
    if (fd >= 0) close(fd);
    fd = -1;
  }
};

// A child process that is ended and reaped on every path.
struct Child {
  pid_t pid = -1;
  ~Child() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  int wait() {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
      if (errno != EINTR) return -1;
    pid = -1;
    return status;
  }
};

std::runtime_error cannot(const KingJamesOptions& options, const std::string& why) {
  return std::runtime_error("cannot make the King James text with the program \"" + options.program +
                            "\": " + why);
}

void start(const KingJamesOptions& options, Child* child, Descriptor* output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw cannot(options, std::strerror(errno));
  output->fd = ends[0];
  Descriptor input{ends[1]};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, input.fd, 1);
  std::string program = options.program, f = "-f", l = "-l", length = "9999", all = "gen1:1-rev22:21";
  char* arguments[] = {program.data(), f.data(), l.data(), length.data(), all.data(), nullptr};
  const int error = posix_spawnp(&child->pid, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return;
  child->pid = -1;
  throw cannot(options,
               std::string(std::strerror(error)) +
                   "; install it with: apt-get install bible-kjv bible-kjv-text (or set data.text to a "
                   "text file of your own)");
}

std::string read_all(const KingJamesOptions& options, const Descriptor& output) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{output.fd, POLLIN, 0};
    const int ready = left > 0 ? poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      throw cannot(options, "it had not finished after " + std::to_string(options.timeout_seconds) + " s");
    const ssize_t got = read(output.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot(options, std::strerror(errno));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMostBytes) throw cannot(options, "it wrote more than 64 MiB");
  }
}

// "Ge1:1 ", "1Sam3:10 ": at most 16 characters without a space, a colon among digits at the end.
size_t label_length(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space > 16) return 0;
  const std::string_view label = line.substr(0, space);
  const size_t colon = label.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == label.size()) return 0;
  auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  if (!digit(label[colon - 1])) return 0;
  for (const char c : label.substr(colon + 1))
    if (!digit(c)) return 0;
  return space + 1;
}

// Written beside its place and renamed, so that ranks that start at once never read half a text.
void write_whole(const std::filesystem::path& out, const std::string& text) {
  std::filesystem::path part = out;
  part += fmt::format(".{}.part", getpid());
  auto fail = [&](const std::string& why) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw std::runtime_error("cannot write the text to " + out.string() + ": " + why);
  };
  errno = 0;
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) fail(errno ? std::strerror(errno) : "the write failed");
  std::error_code error;
  std::filesystem::rename(part, out, error);
  if (error) fail(error.message());
}

}  // namespace

std::string strip_verse_labels(std::string_view labelled, size_t* verses) {
  std::string text;
  text.reserve(labelled.size());
  size_t count = 0;
  while (!labelled.empty()) {
    const size_t end = labelled.find('\n');
    const std::string_view line = labelled.substr(0, end);
    labelled.remove_prefix(end == std::string_view::npos ? labelled.size() : end + 1);
    const size_t label = label_length(line);
    ++count;
    if (label == 0)
      throw std::runtime_error("line " + std::to_string(count) +
                               " of the Bible does not begin with a verse's label: \"" +
                               std::string(line.substr(0, 40)) + "\"");
    text.append(line.substr(label)).push_back('\n');
  }
  if (verses) *verses = count;
  return text;
}

void write_king_james(const std::filesystem::path& out, const KingJamesOptions& options) {
  Child child;
  Descriptor output;
  start(options, &child, &output);
  const std::string labelled = read_all(options, output);
  const int status = child.wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw cannot(options, WIFEXITED(status) ? "it exited with status " + std::to_string(WEXITSTATUS(status)) +
                                                  "; is bible-kjv-text installed?"
                                            : "it was ended by a signal");
  size_t verses = 0;
  const std::string text = strip_verse_labels(labelled, &verses);
  if (verses != kVerses)
    throw cannot(options, "it wrote " + std::to_string(verses) + " of the " + std::to_string(kVerses) +
                              " verses; is bible-kjv-text installed whole?");
  write_whole(out, text);
}

std::filesystem::path cached_king_james() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache && *cache == '/') folder = cache;
  else if (home && *home == '/') folder = std::filesystem::path(home) / ".cache";
  else
    throw std::runtime_error(
        "neither XDG_CACHE_HOME nor HOME names a folder to keep the King James text in; make it with "
        "\"megascale-train text --out FILE\" and set data.text to that file");
  folder /= "megascale";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw std::runtime_error("cannot make the folder " + folder.string() + ": " + error.message());
  std::filesystem::path file = folder / "king-james.txt";
  if (!std::filesystem::exists(file, error)) write_king_james(file);
  return file;
}

}  // namespace megascale::trainer
