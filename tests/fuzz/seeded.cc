// Runs a fuzz target without libFuzzer, so that it runs under every compiler and sanitizer: the seeds as they
// are, and so many mutations of them, the same ones each time.
//
//   seeded MUTATIONS SEED_DIRECTORY
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace {

using Input = std::vector<uint8_t>;
constexpr size_t kMostBytes = 1024;

std::vector<Input> read_seeds(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Input> seeds;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(std::vector<Input> seeds) : seeds_(std::move(seeds)) {}

  Input next() {
    Input input = any_seed();
    for (size_t n = 1 + below(6); n > 0; --n) mutate(input);
    if (input.size() > kMostBytes) input.resize(kMostBytes);
    return input;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  const Input& any_seed() { return seeds_[below(seeds_.size())]; }
  uint8_t any_byte() {
    static constexpr uint8_t kTelling[] = {0,   1,   0x7f, 0x80, 0xff, '\n', '"', '\'',
                                           '[', ']', '=',  '.',  '#',  '{',  '\\'};
    return below(2) ? kTelling[below(std::size(kTelling))] : static_cast<uint8_t>(random_());
  }

  void mutate(Input& input) {
    const auto at = input.begin() + static_cast<ptrdiff_t>(below(input.size() + 1));
    switch (below(6)) {
      case 0:
        input.insert(at, any_byte());
        break;
      case 1:
        input.erase(at, at + static_cast<ptrdiff_t>(below(static_cast<size_t>(input.end() - at) + 1)));
        break;
      case 2:
        input.insert(at, below(64), any_byte());
        break;
      case 3: {
        const Input other = any_seed();
        const size_t from = below(other.size());
        input.insert(at, other.begin() + static_cast<ptrdiff_t>(from), other.end());
        break;
      }
      default:
        if (at != input.end()) *at = below(2) ? any_byte() : static_cast<uint8_t>(*at ^ 1 << below(8));
    }
  }

  const std::vector<Input> seeds_;
  std::mt19937_64 random_{20240416};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MUTATIONS SEED_DIRECTORY\n", argv[0]);
    return 2;
  }
  const auto seeds = read_seeds(argv[2]);
  if (seeds.empty()) {
    fprintf(stderr, "no seeds in %s\n", argv[2]);
    return 1;
  }
  for (const Input& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  Mutator mutator(seeds);
  for (long n = atol(argv[1]); n > 0; --n) {
    const Input input = mutator.next();
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  printf("%zu seeds and %s mutations\n", seeds.size(), argv[1]);
}
