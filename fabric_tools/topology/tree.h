// A tree of switches with hosts at its leaves, as schedulers know a fabric, made into a topology.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric_tools/topology/read.h"

namespace megascale {

class Tree {
 public:
  explicit Tree(std::string source) : source_(std::move(source)) {}

  // Each throws std::invalid_argument where a host has two switches or a switch two parents.
  void hang_host(const std::string& host, const std::string& leaf);
  void hang_switch(const std::string& name, const std::string& parent);

  // Cables are assumed so that no tier has less bandwidth up than down.
  Topology grow(const Assumed&) const;

 private:
  struct Node {
    std::string name;
    uint32_t parent = kNone;
    uint32_t height = 0;  // 0: a leaf
    std::vector<uint32_t> hosts;
    uint32_t children = 0;
  };
  struct Grown;

  [[noreturn]] void fail(const std::string& why) const;
  std::string name() const;
  uint32_t node(const std::string& name);
  std::vector<Node> measured() const;

  std::string source_;
  std::vector<std::string> hosts_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, uint32_t> index_;
  std::unordered_map<std::string, uint32_t> leaf_of_host_;
};

}  // namespace megascale
