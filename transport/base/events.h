// Events for programs: what happened and why, one JSON object a line, appended to the file that
// MEGASCALE_EVENTS names.
//
// Each has "time" (RFC 3339, UTC, milliseconds), "mono_ns" (CLOCK_MONOTONIC), "pid", "rank" (-1: none) and
// "event", and then what the event's author adds:
//
//   Event("flap").with("rail", rail).with("cause", "silence").emit();
//
// A line is one write(2) to a descriptor opened with O_APPEND, so several threads and processes may share a
// file. With no file open an event costs one branch a call.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "cc/units.h"

namespace megascale {

// Opens the file; %p in the name is the process id, %r the rank ("none" when below 0), %% a percent sign.
// Opening the one that is open already does nothing; opening another replaces it. Answers why it failed, or
// nothing.
[[nodiscard]] std::string open_events(const std::string& pattern, int rank);
void close_events();
bool events_on();
// Lines that could not be written, for want of space for instance.
uint64_t events_lost();

class Event {
 public:
  explicit Event(std::string_view name);

  // A string is escaped, cut at 4 KiB, and what is not UTF-8 in it is replaced.
  Event& with(std::string_view key, std::string_view value) { return on_ ? text(key, value) : *this; }
  Event& with(std::string_view key, const char* value) { return with(key, std::string_view(value)); }
  Event& with(std::string_view key, bool value) { return on_ ? raw(key, value ? "true" : "false") : *this; }
  // A number that JSON cannot say (infinite, not a number) becomes null.
  Event& with(std::string_view key, double value) { return on_ ? number(key, value) : *this; }
  Event& with(std::string_view key, std::integral auto value) {
    return on_ ? raw(key, std::to_string(value)) : *this;
  }

  void emit();

 private:
  Event& text(std::string_view key, std::string_view value);
  Event& raw(std::string_view key, std::string_view value);
  Event& number(std::string_view key, double value);

  const bool on_;
  std::string line_;
};

}  // namespace megascale
