// Who lives where in a pretended fabric: hosts, their rails' addresses, and the ranks on them. Pure
// arithmetic.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace megascale::lab {

struct Shape {
  int hosts = 2;  // 1..200
  int rails = 2;  // 1..16
  int ranks = 2;  // 1..1024
};

struct Rank {
  int rank = 0;
  int host = 0;
  int local_rank = 0;  // its place among the ranks of its host
};

enum class Kind {
  namespaces,  // one network namespace a host: every fault can happen
  loopback,    // addresses of the loopback interface pose as rails: nothing to break but connections and
               // processes
};

class Plan {
 public:
  // `id` makes the names unique among all fabrics of a machine: the process id. Throws std::invalid_argument.
  // `rendezvous` empty: a port of the first host, all of which are free in a namespace of our own.
  Plan(Shape shape, Kind kind, int id, std::string rendezvous = {});

  Kind kind() const { return kind_; }
  const Shape& shape() const { return shape_; }
  const std::vector<Rank>& ranks() const { return ranks_; }

  // Two hosts are joined by a cable a rail; any other number through a switch a rail, which live in a
  // namespace of their own.
  bool has_switches() const { return kind_ == Kind::namespaces && shape_.hosts != 2; }
  std::string host_namespace(int host) const;
  std::string switch_namespace() const;
  std::string switch_port(int host, int rail) const;
  std::vector<std::string> namespaces() const;

  std::string interface(int rail) const;          // the same on each host: rail0, rail1, ...
  std::string address(int host, int rail) const;  // 10.<rail + 1>.0.<host + 1>, or 127.0.0.<rail + 1>
  static constexpr int prefix_length() { return 24; }

  // Both ends of the cable that leaves `host` on `rail`, as {namespace, interface}. What is dropped as it
  // comes in at both is lost in both directions, and no sender is told.
  std::vector<std::pair<std::string, std::string>> cable_ends(int host, int rail) const;

  // The launch contract: what a rank finds in its environment.
  std::vector<std::pair<std::string, std::string>> environment(const Rank& rank) const;

 private:
  Shape shape_;
  Kind kind_;
  std::string prefix_;
  std::string rendezvous_;
  std::vector<Rank> ranks_;
};

// All names that plans give begin so; the process id follows.
inline constexpr const char* kNamespacePrefix = "megascale-";

}  // namespace megascale::lab
