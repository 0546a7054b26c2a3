// What the event files of a job tell: each flap, what it cost, and what each rail carried.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace megascale::lab {

// A connection that lost a link, and how it went on. Times are seconds from the start of the job.
struct Flap {
  double at = 0;
  int64_t rank = -1;
  std::string connection, direction, peer;  // direction: "to" the peer or "from" it
  std::string rail;                         // that was lost; empty: the other end lost it, we only replayed
  std::string cause;
  bool recovered = false;
  bool with_next = false;  // this connection flapped again before it recovered: that flap holds the recovery
  std::string onto;        // the rail that traffic went on over
  double fenced = 0, replayed_chunks = 0, replayed_bytes = 0, stalled_ms = 0;
};

// Something else worth a line: a fault that was injected, a connection that failed or returned to its home
// rail.
struct Incident {
  double at = 0;
  std::string sentence;
};

struct RailTotals {
  double bytes_sent = 0, bytes_received = 0, retransmissions = 0, flaps = 0, fenced = 0, replayed_bytes = 0,
         lost_ms = 0;
  double rtt_us_sum = 0;
  int rtt_samples = 0;
  int processes = 0;
};

struct Report {
  std::vector<Flap> flaps;
  std::vector<Incident> incidents;
  std::map<std::string, RailTotals> rails;
  size_t files = 0, lines = 0, malformed = 0;
  size_t failed_connections = 0, returns = 0;
};

// Reads every *.jsonl in the folder. A line that is no event is counted and passed over; a missing field is
// taken for zero or empty. Throws std::runtime_error when there is nothing to read.
Report read_report(const std::string& folder);
Report digest(const std::vector<std::string>& lines);  // the same, from lines of any order

std::string tables(const Report& report);
nlohmann::ordered_json as_json(const Report& report);

}  // namespace megascale::lab
