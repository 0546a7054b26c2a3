// Everything that decides a training run, as a configuration file gives it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/model/shape.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/schedule.h"

namespace megascale::trainer {

inline constexpr const char* kKingJames = "king-james";

struct RunConfig {
  ModelShape model;

  std::string text = kKingJames;   // "king-james", or a file (relative to the configuration's folder)
  double validation_share = 0.05;  // of the text, from its end, never trained on

  size_t steps = 300;
  size_t batch = 32;       // sequences of a step, over all ranks
  size_t micro_batch = 0;  // sequences that a rank works on at once; 0: all its share
  uint64_t seed = 1;
  size_t threads = 0;  // of each rank; 0: the machine's cores shared out to the local ranks

  AdamWOptions adamw;
  double rate = 1e-3;
  double final_rate = 1e-4;
  size_t warmup = 20;  // steps

  size_t bucket_bytes = 1 << 20;  // gradients that travel together

  size_t validation_every = 100;     // steps; 0: only at the end
  size_t validation_sequences = 64;  // a multiple of the number of ranks is best: the rest is left out

  Schedule schedule() const { return {rate, final_rate, warmup, steps}; }
  // Sequences of one forward pass of a rank.
  size_t micro_batch_of(int ranks) const;
  // Whatever must be equal on all ranks, as one number.
  uint64_t fingerprint() const;
};

// Reads and checks a file. Throws ConfigurationError with every mistake in it and its line.
RunConfig read_run_config(const std::filesystem::path& file);

// What depends on the number of ranks. Throws ConfigurationError naming the keys.
void check_ranks(const RunConfig& config, int ranks);

}  // namespace megascale::trainer
