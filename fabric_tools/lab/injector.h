// Does the faults to a pretended fabric, and undoes them.
#pragma once
#include <sys/types.h>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "fabric_tools/lab/plan.h"
#include "fabric_tools/lab/schedule.h"

namespace megascale::lab {

enum class Effect { done, skipped, failed };

struct Outcome {
  Effect effect = Effect::done;
  std::string detail;  // what was done, or why it was not
};

class Injector {
 public:
  // `pid_of_rank` answers -1 for a rank that has ended.
  Injector(const Plan& plan, std::function<pid_t(int)> pid_of_rank)
      : plan_(plan), pid_of_rank_(std::move(pid_of_rank)) {}

  Outcome begin(int id, const Fault& fault);
  Outcome end(int id, const Fault& fault);

 private:
  Outcome drop(int id, const Fault& fault, bool begin);
  Outcome down(const Fault& fault, bool begin);
  Outcome address(const Fault& fault, bool begin);
  Outcome kill_connections(const Fault& fault);
  Outcome kill_rank(const Fault& fault);
  // Faults may overlap: only the first to come acts and only the last to go undoes.
  bool first_or_last(const Fault& fault, int host, int rail, bool begin);

  const Plan& plan_;
  std::function<pid_t(int)> pid_of_rank_;
  std::map<std::tuple<FaultKind, int, int>, int> active_;
};

// "host 0, rail 1" and the like, for people.
std::string place_of(const Fault& fault, const Shape& shape);

}  // namespace megascale::lab
