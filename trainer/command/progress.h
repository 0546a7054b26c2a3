// What a run says while it goes on: one line in place on a terminal, now and then a plain one elsewhere.
#pragma once
#include <chrono>
#include <cstdio>
#include <string>

#include "trainer/loop/training.h"

namespace megascale::trainer {

class Progress {
 public:
  // silent: for the ranks that leave the talking to rank 0.
  Progress(size_t steps, bool silent);
  ~Progress();

  void step(const StepReport& report);
  // A line of its own.
  void say(const std::string& line);

 private:
  std::string line(const StepReport& report) const;
  void clear();

  size_t steps_;
  bool silent_, terminal_;
  bool in_place_ = false;  // the cursor stands on a line that is to be overwritten
  // Rates are those since the last line: a single step is too short a time to judge by.
  double seconds_ = 0, exposed_seconds_ = 0;
  size_t tokens_ = 0;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace megascale::trainer
