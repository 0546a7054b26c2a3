// What happens in a pretended fabric and when: a line for people on stderr, an event for programs.
#pragma once
#include <chrono>
#include <string>

#include "cc/units.h"
#include "transport/base/events.h"

namespace megascale::lab {

class Journal {
 public:
  explicit Journal(const std::string& file);  // for the events; empty: none. Throws std::runtime_error.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void start_clock() { start_ = std::chrono::steady_clock::now(); }
  Duration elapsed() const { return std::chrono::steady_clock::now() - start_; }
  void note(const std::string& sentence, Event& event);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace megascale::lab
