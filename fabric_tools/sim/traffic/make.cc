#include "fabric_tools/sim/traffic/make.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fabric_tools/list.h"
#include "fabric_tools/placement/document.h"
#include "fabric_tools/random.h"
#include "fabric_tools/sim/traffic/flows.h"
#include "fabric_tools/sim/traffic/groups.h"
#include "fabric_tools/sim/traffic/nic_names.h"
#include "fabric_tools/sim/traffic/parts.h"
#include "fabric_tools/sim/traffic/pipeline.h"
#include "fabric_tools/sim/traffic/random_pairs.h"
#include "fabric_tools/sim/traffic/ring.h"
#include "fabric_tools/sim/traffic/spec.h"
#include "fabric_tools/sim/traffic/staged.h"
#include "fabric_tools/sim/traffic/step.h"
#include "fabric_tools/sim/traffic/trace.h"
#include "fabric_tools/sim/traffic/tree.h"
#include "fabric_tools/sim/traffic/victim.h"
#include "transport/base/quantity.h"

namespace megascale::sim {
namespace {

// A billion messages of one packet are days of simulation: it is a slip, not a wish.
constexpr double kMostMessages = 1e9;

struct Build {
  Spec& spec;
  const Topology& topology;
  const TrafficChoice& choice;

  uint32_t nics() const { return static_cast<uint32_t>(topology.nics.size()); }
  Random random() const { return Random(choice.seed); }
};
using Made = std::unique_ptr<Workload>;

uint32_t nic(const Build& b, std::string_view name, uint32_t fallback) {
  const std::string text = b.spec.word(name, std::to_string(fallback));
  NicNames names(b.topology);
  const auto found = names.find(text);
  if (!found)
    b.spec.refuse(fmt::format("`{}' cannot be `{}': the topology's NICs are {}", name, text, names.all()));
  return *found;
}

Within within(const Build& b, const char* fallback) {
  static constexpr std::array<std::string_view, 3> kWords = {"all", "rail", "tor"};
  const std::string text = b.spec.word("within", fallback);
  const auto found = std::find(kWords.begin(), kWords.end(), text);
  if (found == kWords.end()) b.spec.refuse(fmt::format("`within' cannot be `{}': all, rail or tor", text));
  return static_cast<Within>(found - kWords.begin());
}

// Those who take part, in groups of two or more. The first random numbers of a seed choose them, later ones
// who talks to whom.
Groups participants(const Build& b, const char* fallback, Random& random) {
  const Within w = within(b, fallback);
  if (w == Within::kAll && !b.topology.rails_meet)
    b.spec.refuse("this topology's rails do not meet, so not all NICs can talk with all; say within=rail");
  Groups groups = groups_of(b.topology, w);
  draw(groups, b.spec.count("sources", 2, b.nics(), b.nics()), random);
  std::erase_if(groups, [](const auto& group) { return group.size() < 2; });
  if (groups.empty()) b.spec.refuse("no two NICs are left that could talk to each other");
  return groups;
}

const Link& link_of(const Topology& topology, uint32_t nic) {
  return topology.links[topology.nics[nic].link];
}

Made flow(const Build& b) {
  const Bytes bytes = b.spec.bytes("bytes");
  const uint32_t from = nic(b, "from", 0), to = nic(b, "to", b.nics() - 1);
  if (from == to) b.spec.refuse("`from' and `to' are the same NIC");
  return std::make_unique<Flows>(1, [=](uint64_t) { return Flow{from, to, bytes}; });
}

Made permutation(const Build& b) {
  const Bytes bytes = b.spec.bytes("bytes");
  Random random = b.random();
  const Groups groups = participants(b, "all", random);
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const auto& group : groups) {
    const auto to = random.derangement(static_cast<uint32_t>(group.size()));
    for (size_t i = 0; i < group.size(); ++i) pairs.emplace_back(group[i], group[to[i]]);
  }
  const size_t count = pairs.size();
  return std::make_unique<Flows>(count, [bytes, pairs = std::move(pairs)](uint64_t i) {
    return Flow{pairs[i].first, pairs[i].second, bytes};
  });
}

// With more senders than other NICs, some have several connections, as ranks of one host would.
Made incast(const Build& b) {
  const uint32_t senders = b.spec.count("senders", 1, 1'000'000);
  const Bytes bytes = b.spec.bytes("bytes");
  const uint32_t to = nic(b, "to", 0);
  std::vector<uint32_t> others;
  for (uint32_t i = 0; i < b.nics(); ++i) {
    const bool reachable = b.topology.rails_meet || b.topology.nics[i].rail == b.topology.nics[to].rail;
    if (i != to && reachable) others.push_back(i);
  }
  if (others.empty()) b.spec.refuse("no other NIC can reach the receiver");
  b.random().shuffle(others);
  return std::make_unique<Flows>(senders, [=, others = std::move(others)](uint64_t i) {
    return Flow{others[i % others.size()], to, bytes};
  });
}

// Sender by sender, each beginning with its neighbour: not everybody with the same receiver.
Made all_to_all(const Build& b) {
  const Bytes bytes = b.spec.bytes("bytes");
  Random random = b.random();
  Groups groups = participants(b, "all", random);
  std::vector<uint64_t> ends;
  uint64_t count = 0;
  for (const auto& group : groups) ends.push_back(count += group.size() * (group.size() - 1));
  return std::make_unique<Flows>(
      count, [bytes, groups = std::move(groups), ends = std::move(ends)](uint64_t i) {
        const auto which = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
        const auto& group = groups[which];
        const uint64_t n = group.size(), at = i - (which == 0 ? 0 : ends[which - 1]);
        const uint64_t source = at / (n - 1), step = at % (n - 1) + 1;
        return Flow{group[source], group[(source + step) % n], bytes};
      });
}

Made all_to_all_staged(const Build& b) {
  const Bytes bytes = b.spec.bytes("bytes");
  Random random = b.random();
  return std::make_unique<StagedAllToAll>(participants(b, "all", random), bytes);
}

// Rings and trees: one of each rail, unless told otherwise; in the order of the hosts, or in any.
Groups collective_groups(const Build& b) {
  Random random = b.random();
  const char* usual = b.topology.rails > 1 ? "rail" : "all";
  const uint32_t ranks = b.spec.count("ranks", 2, b.nics(), b.nics());
  const std::string order = b.spec.word("order", "hosts");
  Groups groups = participants(b, usual, random);
  if (order != "hosts" && order != "random") b.spec.refuse("`order' is hosts or random");
  if (order == "random")
    for (auto& group : groups) random.shuffle(group);
  groups = cut(groups, ranks);
  if (std::any_of(groups.begin(), groups.end(), [](const auto& group) { return group.size() < 2; }))
    b.spec.refuse(fmt::format("groups of {} ranks leave one rank alone", ranks));
  return groups;
}

template <uint32_t rounds>
Made ring(const Build& b) {
  const Bytes bytes = b.spec.bytes("bytes");
  return std::make_unique<Ring>(collective_groups(b), bytes, rounds);
}

Made tree_all_reduce(const Build& b) {
  const Bytes bytes = b.spec.bytes("bytes");
  const Groups groups = collective_groups(b);
  return std::make_unique<TreeAllReduce>(groups, bytes, b.spec.bytes("chunk", 131072));
}

// Stage s is the s-th of equal blocks of NICs; a NIC talks to the one at the same place of the next block.
Made pipeline(const Build& b) {
  const Bytes bytes = b.spec.bytes("bytes");
  const uint32_t stages = b.spec.count("stages", 2, b.nics(), std::min(b.nics(), 4u));
  const uint32_t micro_batches = b.spec.count("micro_batches", 1, 1'000'000, 8);
  const Duration forward = b.spec.time("forward", Duration(0));
  const uint32_t block = b.nics() / stages;
  Groups groups(block);
  for (uint32_t i = 0; i < block; ++i)
    for (uint32_t s = 0; s < stages; ++s) groups[i].push_back(s * block + i);
  if (!b.topology.rails_meet && block % b.topology.rails != 0)
    b.spec.refuse(fmt::format("{} stages do not divide the hosts: stages would meet across rails", stages));
  return std::make_unique<Pipeline>(groups, bytes, micro_batches, forward);
}

// Seconds.
double gap_for(const Build& b, const std::vector<uint32_t>& nics, Bytes bytes, double load) {
  double capacity = 0;
  for (uint32_t n : nics) capacity += link_of(b.topology, n).rate.bits_per_second;
  return static_cast<double>(bytes) * 8 / (capacity * load);
}

Made random_pairs(const Build& b, bool endless) {
  const Bytes bytes = b.spec.bytes("bytes", 100'000);
  const double load = b.spec.share("load", b.choice.load > 0 ? std::optional(b.choice.load) : std::nullopt);
  const auto lasts = endless ? std::nullopt : std::optional(b.spec.time("for", 1ms));
  if (lasts && *lasts == Duration(0)) b.spec.refuse("`for' must be longer than 0");
  if (!b.topology.rails_meet) b.spec.refuse("random pairs need a topology whose rails meet");
  std::vector<uint32_t> nics = groups_of(b.topology, Within::kAll)[0];
  Random random = b.random();
  const double gap = gap_for(b, nics, bytes, load);
  return std::make_unique<RandomPairs>(std::move(nics), bytes, gap, lasts, random.next());
}

// By default it comes from afar and ends below the ToR at which an incast to NIC 0 ends.
Made victim(const Build& b) {
  const Groups tors = groups_of(b.topology, Within::kTor);
  uint32_t beside = b.nics() - 1;
  for (const auto& tor : tors)
    if (tor.size() > 1 && tor[0] == 0) beside = tor[1];
  uint32_t afar = b.nics() - 1;
  while (afar > 0 && !b.topology.rails_meet && b.topology.nics[afar].rail != b.topology.nics[beside].rail)
    --afar;
  const uint32_t from = nic(b, "from", afar), to = nic(b, "to", beside);
  if (from == to) b.spec.refuse("`from' and `to' are the same NIC");
  return std::make_unique<Victim>(from, to);
}

// Bytes and computing times of all communications, smaller by a factor: what a step takes is then smaller by
// about the same, and who is in whose way is not changed.
void shrink(TrainingStep& step, double scale) {
  for (Communication& c : step.communications) {
    c.bytes = std::max<Bytes>(static_cast<Bytes>(static_cast<double>(c.bytes) * scale), 1);
    c.compute = from_seconds(seconds(c.compute) * scale);
  }
}

Made step(const Build& b) {
  const double scale = b.spec.share("scale", 1.0);
  const std::string order = b.spec.word("order", "placed"), inside = b.spec.word("inside", "2400G");
  const auto rate = parse_rate(inside);
  if (!rate || rate->bits_per_second < 1e6)
    b.spec.refuse(fmt::format("`inside' cannot be `{}': it takes a rate, as 2400G", inside));
  if (order != "placed" && order != "random") b.spec.refuse("`order' is placed or random");
  if (b.choice.placement.empty())
    b.spec.refuse("it needs --placement FILE, as `megascale-fabric place --json FILE' writes it");
  PlacementDocument document = read_placement(b.choice.placement, b.topology);
  if (order == "random") b.random().shuffle(document.placement.hosts);
  TrainingStep communications = step_of(document.model, document.parallel);
  shrink(communications, scale);
  return std::make_unique<StepTraffic>(std::move(communications), std::move(document.placement), *rate);
}

Made trace(const Build& b) { return Trace::read(b.spec.word("file"), b.topology); }

struct Kind {
  std::string_view name, usage, sentence;
  Made (*build)(const Build&);
};

constexpr Kind kKinds[] = {
    {"flow", "flow:BYTES[:from=NIC][:to=NIC]", "one message, from the first NIC to the last", flow},
    {"permutation", "permutation:BYTES[:within=all|rail|tor][:sources=N]",
     "each NIC sends to one other, and receives from one; within=tor: without a shared link", permutation},
    {"incast", "incast:SENDERS:BYTES[:to=NIC]", "random NICs send to the first one, each so many bytes",
     incast},
    {"all_to_all", "all_to_all:BYTES[:within=all|rail|tor][:sources=N]",
     "so many bytes for each pair, all at once", all_to_all},
    {"all_to_all_staged", "all_to_all_staged:BYTES[:within=...][:sources=N]",
     "as NCCL: in stage k, rank r sends to r+k and receives from r-k", all_to_all_staged},
    {"ring_all_reduce", "ring_all_reduce:BYTES[:ranks=N][:order=hosts|random][:within=...][:sources=N]",
     "so many bytes of each NIC, in a ring for each rail (of `ranks' NICs each)", ring<2>},
    {"reduce_scatter", "reduce_scatter:BYTES[: as ring_all_reduce]",
     "half of it: everybody ends with a share", ring<1>},
    {"all_gather", "all_gather:BYTES[: as ring_all_reduce]", "the other half: everybody ends with all shares",
     ring<1>},
    {"tree_all_reduce", "tree_all_reduce:BYTES[: as ring_all_reduce][:chunk=128KiB]",
     "over two binary trees, chunk by chunk", tree_all_reduce},
    {"pipeline", "pipeline:BYTES[:stages=4][:micro_batches=8][:forward=TIME]",
     "activations there and gradients back, one pass forward, one backward (twice `forward')", pipeline},
    {"step", "step[:scale=SHARE][:order=placed|random][:inside=2400G]",
     "a 3-D parallel training step by --placement; scale: bytes and computing made smaller; inside: rate in "
     "a host",
     step},
    {"random", "random[:BYTES][:load=SHARE][:for=1ms]",
     "messages (100KB) between random pairs arrive so often that NICs send that share of their rate",
     [](const Build& b) { return random_pairs(b, false); }},
    {"background", "background[:BYTES][:load=SHARE]", "the same, for as long as the other traffic lasts",
     [](const Build& b) { return random_pairs(b, true); }},
    {"victim", "victim[:from=NIC][:to=NIC]",
     "always sends while the other traffic lasts; its goodput is told", victim},
    {"trace", "trace:FILE", "messages from a file of JSON lines (docs/simulator.md)", trace},
};

Parts::Part make_part(const std::string& text, const TrafficChoice& choice, const Topology& topology) {
  Spec spec(text);
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const Kind& k) { return k.name == spec.kind(); });
  if (kind == std::end(kKinds)) {
    std::vector<std::string_view> names;
    for (const Kind& k : kKinds) names.push_back(k.name);
    spec.refuse(fmt::format("`{}' is none of {}", spec.kind(), fmt::join(names, ", ")));
  }
  const Duration start = spec.start();
  Parts::Part part{kind->build({spec, topology, choice}), start};
  spec.done();
  if (part.traffic->messages() > kMostMessages)
    spec.refuse(fmt::format("these are {:.2g} messages, more than the {:.0e} that are sensible",
                            part.traffic->messages(), kMostMessages));
  return part;
}

}  // namespace

std::unique_ptr<Workload> make_traffic(const TrafficChoice& choice, const Topology& topology,
                                       Endless endless) {
  const auto texts = split(choice.spec, '+');
  if (texts.size() > Parts::kMost)
    throw std::invalid_argument(
        fmt::format("traffic of {} parts: {} is the most", texts.size(), Parts::kMost));
  if (topology.nics.size() < 2)
    throw std::invalid_argument("a topology with fewer than 2 NICs carries no traffic");
  std::vector<Parts::Part> parts;
  bool any_ends = false;
  for (const std::string& text : texts) {
    Parts::Part part = make_part(text, choice, topology);
    any_ends |= !part.traffic->endless();
    if (part.traffic->endless() && endless == Endless::kLeaveOut) continue;
    parts.push_back(std::move(part));
  }
  if (!any_ends)
    throw std::invalid_argument(
        fmt::format("traffic `{}': it would never end; add some that does, as in `incast:16:1MB+{}'",
                    choice.spec, choice.spec));
  if (parts.size() == 1 && parts[0].start == Duration(0)) return std::move(parts[0].traffic);
  return std::make_unique<Parts>(std::move(parts));
}

std::string describe_traffic() {
  std::string text;
  for (const Kind& kind : kKinds) text += fmt::format("  {}\n      {}\n", kind.usage, kind.sentence);
  text +=
      "  Any of them takes at=TIME, a later start; A+B is both at once. NICs are numbers or HOST/RAIL. KB, "
      "MB, GB are\n"
      "  powers of 1000, KiB, MiB, GiB of 1024 (K, M, G too); times are 10us or 1ms, a bare number is "
      "seconds. within: only\n"
      "  NICs of a rail, or below a ToR, talk to each other; sources: so many random NICs take part, not "
      "all.\n";
  return text;
}

}  // namespace megascale::sim
