#include "fabric_tools/lab/journal.h"

#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>

namespace megascale::lab {

Journal::Journal(const std::string& file) {
  if (file.empty()) return;
  std::string why = open_events(file, -1);
  if (!why.empty()) throw std::runtime_error(fmt::format("cannot write events to {}: {}", file, why));
}

Journal::~Journal() { close_events(); }

void Journal::note(const std::string& sentence, Event& event) {
  fmt::print(stderr, "[lab {:7.3f} s] {}\n", seconds(elapsed()), sentence);
  event.emit();
}

}  // namespace megascale::lab
