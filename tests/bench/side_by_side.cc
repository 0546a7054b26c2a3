// Compares the plugin with plain TCP in one run, alternating: throughput and CPU time of one and of four
// connections at 1, 4 and 64 MiB, and half the round trip of 8 bytes. Prints medians, ranges and ratios. See
// docs/performance.md.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/bench/pair.h"

using namespace megascale::bench;

namespace {

constexpr double kGiga = 1e9;

struct Series {
  std::vector<double> values;
  double at(double q) {
    std::sort(values.begin(), values.end());
    return values.empty()
               ? 0
               : values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
  }
  double median() { return at(0.5); }
  double least() { return at(0); }
  double most() { return at(1); }
};

struct Row {
  Series speed, cpu, ratio, cpu_ratio;
  void add(double gigabytes, const Outcome& o, const Outcome* yardstick) {
    speed.values.push_back(gigabytes / o.wall);
    cpu.values.push_back(o.cpu / gigabytes);
    if (!yardstick) return;
    ratio.values.push_back(yardstick->wall / o.wall);
    cpu_ratio.values.push_back(o.cpu / yardstick->cpu);
  }
};

double percentile(std::vector<double> v, double q) { return Series{std::move(v)}.at(q) * 1e6; }

void print(const char* what, Row& r) {
  printf("%-28s %6.2f [%5.2f..%5.2f] GB/s  %5.3f [%.3f..%.3f] s/GB", what, r.speed.median(), r.speed.least(),
         r.speed.most(), r.cpu.median(), r.cpu.least(), r.cpu.most());
  if (!r.ratio.values.empty())
    printf("   %4.2f [%.2f..%.2f] x plain, CPU %4.2f x", r.ratio.median(), r.ratio.least(), r.ratio.most(),
           r.cpu_ratio.median());
  printf("\n");
}

void throughput(const std::string& plugin, const std::string& algorithm, int repetitions) {
  struct Case {
    const char* name;
    std::size_t message;
    int connections;
    std::size_t total;
  };
  const Case cases[] = {{" 1 MiB", 1 << 20, 1, 3u << 30},
                        {" 4 MiB", 4 << 20, 1, 3u << 30},
                        {" 64 MiB", 64 << 20, 1, 3u << 30},
                        {" 4 x 1 MiB", 1 << 20, 4, 3u << 30},
                        {" 4 x 4 MiB", 4 << 20, 4, 3u << 30}};
  Row plain, bare[std::size(cases)], rows[std::size(cases)];
  for (int i = 0; i < repetitions; i++)
    for (std::size_t k = 0; k < std::size(cases); k++) {
      const Case& c = cases[k];
      double g = static_cast<double>(c.total) / kGiga;
      auto a = run_pair(plain_stream_sender(c.total, algorithm), plain_stream_receiver(c.total, algorithm));
      plain.add(g, a, nullptr);
      if (c.connections == 1)
        bare[k].add(g,
                    run_pair(bare_stream(c.total, c.message, algorithm, true),
                             bare_stream(c.total, c.message, algorithm, false)),
                    &a);
      rows[k].add(g,
                  run_pair(plugin_stream(plugin, c.total, c.message, c.connections, true),
                           plugin_stream(plugin, c.total, c.message, c.connections, false)),
                  &a);
    }
  print("plain TCP, 1 MiB writes", plain);
  for (std::size_t k = 0; k < std::size(cases); k++) {
    if (cases[k].connections == 1) print((std::string("bare loop") + cases[k].name).c_str(), bare[k]);
    print((std::string("plugin") + cases[k].name).c_str(), rows[k]);
  }
}

void latency(const std::string& plugin, const std::string& algorithm, int repetitions) {
  constexpr int kRounds = 20000;
  Series p50[2], p99[2], ratio;
  for (int i = 0; i < repetitions; i++) {
    auto a = run_pair(plain_ping(kRounds, 8, algorithm, true), plain_ping(kRounds, 8, algorithm, false));
    auto b = run_pair(plugin_ping(plugin, kRounds, 8, true), plugin_ping(plugin, kRounds, 8, false));
    p50[0].values.push_back(percentile(a.samples, 0.5));
    p50[1].values.push_back(percentile(b.samples, 0.5));
    p99[0].values.push_back(percentile(a.samples, 0.99));
    p99[1].values.push_back(percentile(b.samples, 0.99));
    ratio.values.push_back(p50[1].values.back() / p50[0].values.back());
  }
  const char* names[] = {"plain TCP, spinning, 8 B", "plugin, 8 B"};
  for (int k = 0; k < 2; k++)
    printf("%-28s half round trip p50 %5.2f [%5.2f..%5.2f] us  p99 %5.2f [%5.2f..%5.2f] us\n", names[k],
           p50[k].median(), p50[k].least(), p50[k].most(), p99[k].median(), p99[k].least(), p99[k].most());
  printf("%-28s %.2f [%.2f..%.2f] x plain\n", "", ratio.median(), ratio.least(), ratio.most());
}

}  // namespace

int main(int argc, char** argv) {
  std::string plugin = MEGASCALE_PLUGIN, algorithm = "reno", only;
  int repetitions = 7;
  const bool help = argc == 2 && !strcmp(argv[1], "--help");
  bool wrong = argc % 2 == 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--plugin")) plugin = argv[i + 1];
    else if (!strcmp(argv[i], "--algorithm")) algorithm = argv[i + 1];
    else if (!strcmp(argv[i], "--only")) only = argv[i + 1];
    else if (!strcmp(argv[i], "--repetitions")) repetitions = atoi(argv[i + 1]);
    else wrong = true;
  }
  if (!only.empty() && only != "throughput" && only != "latency") wrong = true;
  if (wrong || repetitions < 1) {
    fprintf(help ? stdout : stderr,
            "usage: side_by_side [--plugin PATH] [--algorithm reno|cubic|...|default] [--repetitions N]\n"
            "                    [--only throughput|latency]\n");
    return help ? 0 : 2;
  }
  setenv("MEGASCALE_RAILS", "127.0.0.1", 0);
  setenv("MEGASCALE_LOG", "warn", 0);
  setenv("MEGASCALE_SECRET", "two processes on one host", 0);
  setenv("MEGASCALE_TCP_ALGORITHM", algorithm == "default" ? "auto" : algorithm.c_str(), 0);
  try {
    if (only != "latency") throughput(plugin, algorithm == "default" ? "" : algorithm, repetitions);
    if (only != "throughput") latency(plugin, algorithm == "default" ? "" : algorithm, repetitions);
  } catch (const std::exception& e) {
    fprintf(stderr, "side_by_side: %s\n", e.what());
    return 3;
  }
  return 0;
}
