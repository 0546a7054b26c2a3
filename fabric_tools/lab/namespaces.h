// The pretended fabric itself: network namespaces joined by veth cables, which never outlive us.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "fabric_tools/lab/plan.h"

namespace megascale::lab {

// Why namespaces cannot be had here, with what to do; empty when they can.
std::string why_no_namespaces();

// Ends whatever still runs in these namespaces, by process id, and deletes them. Says what could not be done.
std::vector<std::string> remove_namespaces(const std::vector<std::string>& names);

// Namespaces of pretended fabrics whose maker is dead: with --keep they stay behind on purpose.
std::vector<std::string> abandoned_namespaces();

// Builds the plan's namespaces in its constructor and removes them in its destructor. A watcher process does
// the latter when we are killed before we can.
class Namespaces {
 public:
  explicit Namespaces(const Plan& plan);
  ~Namespaces();
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  void keep() { kept_ = true; }

 private:
  void build(const Plan& plan);
  void start_watcher();
  void dismiss_watcher();

  std::vector<std::string> names_;
  pid_t watcher_ = -1;
  int lifeline_ = -1;  // the watcher acts when this closes without a word
  bool kept_ = false;
};

}  // namespace megascale::lab
