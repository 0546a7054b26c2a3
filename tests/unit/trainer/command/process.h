// A program under test: started with arguments and environment, its output kept, never outliving the test.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace megascale::trainer {

class Process {
 public:
  // environment: NAME=value, beside what the test has; NAME alone takes it away. Output goes to a file in
  // `folder`.
  Process(const std::vector<std::string>& command, const std::vector<std::string>& environment,
          const std::filesystem::path& folder);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number);
  // The exit code, 128 + signal, or -1 when it had not ended by the deadline.
  int wait(std::chrono::seconds deadline);
  bool running();
  std::string output() const;  // stdout and stderr

 private:
  pid_t pid_ = -1;
  int code_ = -1;
  std::filesystem::path output_;
};

}  // namespace megascale::trainer
