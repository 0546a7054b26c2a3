// `megascale-fabric bench`: the command line, how ranks come into being, and what a rank does.
#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "fabric_tools/bench/collective.h"
#include "fabric_tools/bench/hosts.h"
#include "fabric_tools/bench/options.h"
#include "fabric_tools/bench/point_to_point.h"
#include "fabric_tools/command.h"
#include "fabric_tools/file.h"
#include "fabric_tools/list.h"
#include "fabric_tools/not_nan.h"
#include "plugin/host/communicator.h"
#include "plugin/host/launch.h"
#include "plugin/host/loader.h"
#include "transport/base/settings.h"

namespace megascale {
namespace {

constexpr const char* kBenchFooter = R"(Examples:
  megascale-fabric bench all_reduce -b 8 -e 64M -f 4 -n 20 -c 1 --ranks 4
  megascale-fabric bench all_to_all -b 1M -e 1M --duration 60 --ranks 8      while something breaks
  megascale-fabric bench --point-to-point --pin --plugin /path/libnccl-net-other.so
  megascale-fabric bench all_reduce --hosts node1:8,node2:8 --launch 'ssh {host}'
  MEGASCALE_RANK=0 MEGASCALE_RANKS=2 MEGASCALE_RENDEZVOUS=node1:29400 megascale-fabric bench sendrecv

Bandwidth as nccl-tests has it: algbw is size over time; busbw is algbw times what a wire must carry for each byte
(all_reduce 2(n-1)/n; all_gather, reduce_scatter, all_to_all (n-1)/n; else 1). GB are 10^9 bytes; size is that of the
larger of a rank's buffers. Time is that of the slowest rank: the mean of the operations and, with --duration, the longest.)";

struct Texts {  // what needs more parsing than the command-line library gives
  std::string collective, smallest, largest, step, type, op, chunk, volume, hosts;
  double seconds = 0;
};

void describe_what(CLI::App& command, BenchOptions& o, Texts& t) {
  command.add_option("collective", t.collective,
                     "all_reduce, all_gather, reduce_scatter, broadcast, sendrecv, all_to_all or barrier");
  command.add_flag("--point-to-point", o.point_to_point,
                   "the plugin's own throughput, half round trip and CPU time, between two ranks");
  command.add_option("-b,--minbytes", t.smallest, "smallest size, e.g. 8, 64K, 4M, 1G [8]");
  command.add_option("-e,--maxbytes", t.largest, "largest size [64M]");
  command.add_option("-i,--stepbytes", t.step, "add so much from size to size, instead of multiplying");
  command.add_option("-f,--stepfactor", o.factor, "multiply by this from size to size [4]");
  command.add_option("-n,--iters", o.iterations, "timed operations of each size [20]");
  command.add_option("-w,--warmup_iters", o.warm_up, "operations before them [5]");
  command.add_option("-c,--check", o.checks,
                     "checked operations after them, with an input of their own each; 0: none [1]");
  command.add_option("-d,--datatype", t.type, "i8 u8 i32 u32 i64 u64 f32 f64 bf16 [f32]");
  command.add_option("-o,--op", t.op, "sum prod min max [sum]");
  command.add_option("-r,--root", o.root, "of broadcast [0]");
  command
      .add_option("--duration", t.seconds, "repeat all sizes for so many seconds; every operation is checked")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 1e7))
      ->check(not_nan());
  command.add_option("--connections", o.connections, "of --point-to-point [1]");
  command.add_option("--volume", t.volume, "bytes that --point-to-point moves at each size [1G]");
}

void describe_how(CLI::App& command, BenchOptions& o, Texts& t) {
  command.add_option("--plugin", o.plugin, "path or name as for NCCL_NET_PLUGIN [this project's own]");
  command.add_option("--device", o.device, "of the plugin [local rank modulo devices]");
  command.add_option("--rings", o.rings, "connections that a collective uses at once [1]");
  command.add_option("--chunk", t.chunk, "bytes of a message on a ring [256K]");
  command.add_option("--ranks", o.ranks, "processes on this host [2]");
  command.add_flag("--pin", o.pin, "each process on a CPU of its own, in turn");
  command.add_option("--hosts", t.hosts, "comma list of host or host:ranks, instead of --ranks");
  command.add_option("--launch", o.launch,
                     "start them by this, e.g. 'ssh {host}'; without it the commands are printed");
  command.add_option("--rendezvous", o.rendezvous, "host:port where rank 0 listens [first host, port 29400]");
  command.add_option("--timeout", o.timeout, "seconds for the ranks to meet and to connect [120]");
  command.add_option("--json", o.json, "write the results to this file as well (- for standard output)");
}

// Throws std::invalid_argument with a sentence.
void complete(BenchOptions& o, const Texts& t) {
  const auto wrong = [](const std::string& what) { throw std::invalid_argument(what); };
  const auto size = [](const std::string& text, uint64_t& to) {
    if (!text.empty()) to = bench_size(text);
  };
  if (!o.point_to_point) {
    bool known = false;
    for (Collective c : kCollectives) {
      if (t.collective == name_of(c)) o.collective = c, known = true;
    }
    if (!known) {
      wrong(t.collective.empty() ? "say which collective, or --point-to-point; --help lists them"
                                 : "`" + t.collective + "' is no collective; --help lists them");
    }
  } else if (!t.collective.empty()) {
    wrong("--point-to-point is no collective: leave `" + t.collective + "' out");
  }
  size(t.smallest, o.smallest), size(t.largest, o.largest), size(t.step, o.step), size(t.chunk, o.chunk);
  size(t.volume, o.volume);
  if (t.largest.empty()) o.largest = std::max(o.largest, o.smallest);
  if (t.smallest.empty()) o.smallest = std::min(o.largest, o.smallest);
  if (o.smallest > o.largest) wrong("the smallest size is larger than the largest");
  if (!(o.factor > 1 && o.factor <= 1e6)) wrong("-f must be greater than 1");
  if (o.iterations < 1) wrong("-n must be 1 or more");
  if (o.warm_up < 0 || o.checks < 0) wrong("-w and -c cannot be negative");
  if (o.ranks < 1 || o.ranks > 1024) wrong("--ranks must be 1 to 1024");
  if (o.connections < 1 || o.connections > 256) wrong("--connections must be 1 to 256");
  if (o.timeout < 1) wrong("--timeout must be 1 s or more");
  if (!t.type.empty()) {
    const auto type = host::data_type(t.type);
    if (!type) wrong("`" + t.type + "' is no type that is known: i8 u8 i32 u32 i64 u64 f32 f64 bf16");
    o.type = *type;
  }
  if (!t.op.empty()) {
    const auto op = host::reduce_op(t.op);
    if (!op) wrong("`" + t.op + "' is no operator that is known: sum prod min max");
    o.op = *op;
  }
  o.duration = std::chrono::duration<double>(t.seconds);
  if (!t.hosts.empty()) o.hosts = list_of(t.hosts, "--hosts");
  if (!t.hosts.empty() && o.hosts.empty()) wrong("--hosts names no host");
  if (!o.launch.empty() && o.hosts.empty()) wrong("--launch needs --hosts");
}

// What can only be checked when the number of ranks is known.
void check_ranks(const BenchOptions& o, int ranks) {
  if (o.point_to_point && ranks != 2) {
    throw std::invalid_argument("--point-to-point is between 2 ranks, not " + std::to_string(ranks));
  }
  if (o.root < 0 || o.root >= ranks) {
    throw std::invalid_argument("-r " + std::to_string(o.root) + " is none of the " + std::to_string(ranks) +
                                " ranks");
  }
}

uint64_t rank_point_to_point(const BenchOptions& o, const host::CommunicatorOptions& options) {
  std::vector<std::string> complaints;
  const Settings settings = load_settings(&complaints);
  if (settings.secret_unreadable)
    throw std::runtime_error("the job's secret in " + settings.secret_file + " cannot be read");
  host::Rendezvous rendezvous(
      {options.rank, options.ranks, options.rendezvous, settings.secret, options.timeout});
  try {
    const uint64_t id = std::hash<std::string>{}(options.rendezvous);
    const auto context = host::attach(options.plugin, id);
    const int device = o.device >= 0 ? o.device : options.local_rank % context->devices();
    if (device >= context->devices()) {
      throw std::runtime_error(context->net().name() + " has no device " + std::to_string(device));
    }
    const Circumstances what{o, 2, context->net().name(), options.plugin};
    if (options.rank == 0) print_heading(what);
    const auto rows = run_point_to_point(rendezvous, *context, options.rank, device, what);
    uint64_t wrong = 0;
    for (const PointToPointRow& row : rows) wrong += row.wrong;
    if (options.rank == 0) {
      print_total(wrong, 0);
      if (!o.json.empty()) write_json(o.json, document(what, rows));
    }
    return wrong;
  } catch (const std::exception& error) {
    rendezvous.report_failure({options.rank, "rank " + std::to_string(options.rank) + ": " + error.what()});
    throw;
  }
}

uint64_t rank_collective(const BenchOptions& o, const host::CommunicatorOptions& options) {
  const auto communicator = host::Communicator::create(options);
  const Circumstances what{o, options.ranks, communicator->network(), options.plugin};
  const bool first = options.rank == 0;
  if (first) print_heading(what);
  const auto rows = run_collective(*communicator, what);
  uint64_t wrong = 0;
  double bandwidth = 0;
  for (const CollectiveRow& row : rows) {
    wrong += row.wrong;
    bandwidth += row.algorithm_bandwidth() * bus_factor(o.collective, options.ranks) /
                 static_cast<double>(rows.size());
  }
  if (first) {
    print_total(wrong, bandwidth);
    if (!o.json.empty()) write_json(o.json, document(what, rows));
  }
  communicator->barrier().wait();  // nobody leaves while another still waits for the last answer
  return wrong;
}

void pin_to(int local_rank) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  const int count = CPU_COUNT(&usable);
  int place = local_rank % std::max(count, 1);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable) || place-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

host::CommunicatorOptions place_in_job() {
  try {
    return host::options_from_environment();
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(error.what());  // the environment is part of the call
  }
}

int run_rank(const BenchOptions& o) {
  host::CommunicatorOptions options = place_in_job();
  check_ranks(o, options.ranks);
  if (o.pin) pin_to(options.local_rank);
  options.plugin = o.plugin.empty() ? host::own_plugin() : o.plugin;
  options.device = o.device;
  options.rings = o.rings;
  options.chunk = o.chunk;
  options.timeout = std::chrono::seconds(o.timeout);
  options.progress_thread = false;  // somebody always waits here
  const uint64_t wrong = o.point_to_point ? rank_point_to_point(o, options) : rank_collective(o, options);
  return wrong == 0 ? kAllWell : kNotWell;
}

// A rank that ended by a signal did not measure anything.
int ended(const host::LaunchResult& result) {
  if (result.exit_code == 0) return kAllWell;
  if (result.exit_code == kNotWell) return kNotWell;
  std::fprintf(stderr, "megascale-fabric bench: %s\n", result.failure.c_str());
  return result.exit_code == kCalledWrongly ? kCalledWrongly : kNotMeasured;
}

int start_here(const BenchOptions& o, const std::vector<std::string>& arguments) {
  check_ranks(o, o.ranks);
  host::LocalLaunch launch;
  launch.ranks = o.ranks;
  launch.arguments = arguments;
  launch.rendezvous = o.rendezvous;
  return ended(host::local_ranks(launch));
}

int start_on_hosts(const BenchOptions& o, const std::vector<std::string>& arguments) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto commands = rank_commands(o, program, arguments);
  check_ranks(o, static_cast<int>(commands.size()));
  if (o.launch.empty()) {
    for (const RankCommand& command : commands) fmt::print("# on {}:\n{}\n", command.host, command.command);
    return kAllWell;
  }
  host::LocalLaunch launch;
  launch.ranks = static_cast<int>(commands.size());
  launch.program = "/bin/sh";
  launch.arguments = {"-c", launch_script(commands, o.launch)};
  return ended(host::local_ranks(launch));
}

int bench(BenchOptions o, const Texts& texts, const std::vector<std::string>& arguments) {
  complete(o, texts);
  if (std::getenv("MEGASCALE_RANK") != nullptr) return run_rank(o);
  return o.hosts.empty() ? start_here(o, arguments) : start_on_hosts(o, arguments);
}

}  // namespace

void add_bench(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "bench",
      "Times and checks a collective of host memory over any NCCL network plugin, in nccl-tests' manner, or "
      "measures the plugin alone (--point-to-point). Every element of the result is checked.");
  command->footer(kBenchFooter);
  auto options = std::make_shared<BenchOptions>();
  auto texts = std::make_shared<Texts>();
  describe_what(*command, *options, *texts);
  describe_how(*command, *options, *texts);
  command->callback(
      [options, texts, arguments, &exit_code] { exit_code = bench(*options, *texts, arguments); });
}

}  // namespace megascale
