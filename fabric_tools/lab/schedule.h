// When which fault happens: a schedule read from TOML, and the timeline that plays it.
//
//   after_file = "run/losses"   # optional: count from when this file appears, not from the ranks' start
//
//   [[fault]]
//   kind = "drop"               # drop | down | address | kill | blackhole_host | sigkill
//   hosts = [0]                 # default: all
//   rails = [0]                 # default: all
//   at = 10                     # seconds
//   for = 3                     # seconds; left out: drop, down, address, blackhole_host last for ever
//   after_file = "other"        # optional, for this fault alone
//   rank = 1                    # sigkill only
//
//   [rotate]                    # besides: a fault a turn until the ranks end, each kind on each rail
//   every = 1                   # seconds from one fault's begin to the next one's
//   for = 0.5                   # seconds that each lasts; less than `every`
//   kinds = ["drop", "down", "address", "kill"]
//   hosts = [0]                 # default: all
//   rails = [0, 1]              # default: all
//   at = 0                      # default 0: when the first begins
#pragma once
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "cc/units.h"
#include "fabric_tools/lab/plan.h"

namespace megascale::lab {

enum class FaultKind {
  drop,            // the cable swallows everything, in both directions, and tells nobody
  down,            // the interface is taken down, then up
  address,         // the interface loses its address, then has it back
  kill,            // established TCP connections of the rail's address are destroyed (ss -K)
  blackhole_host,  // all cables of a host swallow everything: to the others the host is gone
  sigkill,         // a rank is killed
};
std::string_view name_of(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::drop;
  std::vector<int> hosts;
  std::vector<int> rails;
  int rank = -1;
  Duration at{0};
  std::optional<Duration> lasts;  // none: for ever, or a fault of an instant
  std::string after_file;         // empty: counted from the start
};

struct Rotation {
  Duration at{0}, every{1s}, lasts{0};
  std::vector<FaultKind> kinds;
  std::vector<int> hosts, rails;
  std::string after_file;
};

struct Schedule {
  std::vector<Fault> faults;
  std::optional<Rotation> rotation;
};

// `source` names the text in errors. Throws std::invalid_argument("FILE:LINE: what is wrong, what is
// accepted"). `shape` bounds hosts, rails and rank. `after_file` replaces the schedule's own when not empty.
Schedule parse_schedule(std::string_view text, const std::string& source, const Shape& shape,
                        const std::string& after_file = {});
Schedule read_schedule(const std::string& file, const Shape& shape, const std::string& after_file = {});

struct Step {
  int id = 0;  // begin and end of one fault have the same
  bool begin = true;
  bool rotating = false;
  Fault fault;
};

// Plays a schedule. Knows no clock: the caller says when it is, counted from the start of the ranks.
class Timeline {
 public:
  explicit Timeline(const Schedule& schedule);

  std::vector<std::string> awaited_files() const;  // those not yet seen
  void file_appeared(const std::string& file, Duration now);
  size_t faults_to_come() const;              // listed faults that have not begun; a rotation has no end
  std::optional<Duration> next() const;       // when the next step is due
  std::optional<Step> pop_due(Duration now);  // one step whose time has come; call again until none

 private:
  struct Entry {
    Duration due;
    int order;
    Step step;
    bool operator>(const Entry& other) const {
      return due != other.due ? due > other.due : order > other.order;
    }
  };
  void add(Duration base, const Fault& fault, bool rotating = false);
  void add_turn(Duration due);

  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
  std::vector<Fault> waiting_;
  std::optional<Rotation> rotation_;
  bool rotation_waits_ = false;
  int next_id_ = 0, next_order_ = 0, turn_ = 0;
  size_t begun_ = 0, listed_ = 0;
  int turn_id_ = -1;  // the step whose begin calls for the next turn
};

}  // namespace megascale::lab
