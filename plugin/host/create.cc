// A communicator's birth: meet, agree, open the plugin, connect.
#include <algorithm>
#include <random>

#include "plugin/host/communicator.h"
#include "plugin/host/engine.h"
#include "plugin/host/rendezvous_wire.h"
#include "transport/base/settings.h"

namespace megascale::host {
namespace {

// A quarter of a megabyte keeps a block of four ranks in a core's cache and costs a message each 50 us at 5
// GB/s.
constexpr size_t kDefaultChunk = 256 << 10;
constexpr size_t kSmallestChunk = 4 << 10;
constexpr size_t kLargestChunk = 256 << 20;
constexpr int kMostRings = 32;
constexpr int kMostRanks = 1024;  // every pair gets a connection each way

void check(const CommunicatorOptions& options) {
  const auto wrong = [](const std::string& what) { throw std::runtime_error(what); };
  if (options.ranks < 1 || options.ranks > kMostRanks) {
    wrong("a communicator has 1 to 1024 ranks, not " + std::to_string(options.ranks));
  }
  if (options.rank < 0 || options.rank >= options.ranks) {
    wrong("rank " + std::to_string(options.rank) + " does not exist among " + std::to_string(options.ranks) +
          ": ranks count from 0");
  }
  if (options.rings < 1 || options.rings > kMostRings) {
    wrong("a communicator has 1 to 32 rings, not " + std::to_string(options.rings));
  }
  if (options.chunk != 0 && (options.chunk < kSmallestChunk || options.chunk > kLargestChunk)) {
    wrong("a chunk has 4 KiB to 256 MiB, not " + std::to_string(options.chunk) + " bytes");
  }
  if (options.ranks > 1 && options.rendezvous.empty()) {
    wrong("no rendezvous was given: set MEGASCALE_RENDEZVOUS to host:port, where rank 0 listens");
  }
}

// What all ranks must have in common, and rank 0's lot that names the communicator to plugins.
struct Agreement {
  uint64_t id = 0;
  uint64_t chunk = 0;
  uint64_t rings = 0;
};

Agreement agree(Rendezvous& rendezvous, const CommunicatorOptions& options) {
  std::random_device random;
  const Agreement mine{(static_cast<uint64_t>(random()) << 32) | random(), options.chunk,
                       static_cast<uint64_t>(options.rings)};
  std::string blob;
  for (uint64_t word : {mine.id, mine.chunk, mine.rings}) {
    wire::put_u32(blob, static_cast<uint32_t>(word));
    wire::put_u32(blob, static_cast<uint32_t>(word >> 32));
  }
  const std::vector<std::string> blobs = rendezvous.all_gather(blob);
  Agreement first;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    std::string_view text = blobs[rank];
    if (text.size() != blob.size()) {
      throw std::runtime_error("rank " + std::to_string(rank) +
                               " introduced itself in another way; install the same "
                               "release everywhere");
    }
    uint64_t words[3];
    for (uint64_t& word : words) {
      word = *wire::take_u32(text);
      word |= static_cast<uint64_t>(*wire::take_u32(text)) << 32;
    }
    const Agreement theirs{words[0], words[1], words[2]};
    if (rank == 0) first = theirs;
    if (theirs.chunk != first.chunk || theirs.rings != first.rings) {
      throw std::runtime_error("rank " + std::to_string(rank) + " has chunks of " +
                               std::to_string(theirs.chunk) + " bytes and " + std::to_string(theirs.rings) +
                               " rings, rank 0 has " + std::to_string(first.chunk) + " and " +
                               std::to_string(first.rings) + "; give all ranks the same options");
    }
  }
  return first;
}

int choose_device(const NetContext& context, const CommunicatorOptions& options) {
  if (options.device >= context.devices()) {
    throw std::runtime_error(context.net().name() + " has no device " + std::to_string(options.device) +
                             "; it has 0 to " + std::to_string(context.devices() - 1));
  }
  return options.device >= 0 ? options.device : std::max(options.local_rank, 0) % context.devices();
}

void check_device(const NetContext& context, const CommunicatorOptions& options, int device) {
  const abi::PropertiesV12 properties = context.properties(device);
  const std::string who = context.net().name() + "'s device " + std::to_string(device);
  if ((properties.ptrSupport & abi::kPtrHost) == 0) {
    throw std::runtime_error(who + " cannot send from host memory (its ptrSupport has no NCCL_PTR_HOST)");
  }
  if (options.ranks > 1 && properties.maxP2pBytes < options.chunk) {
    throw std::runtime_error(who + " takes messages of at most " + std::to_string(properties.maxP2pBytes) +
                             " bytes; choose a chunk no larger than that");
  }
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(const CommunicatorOptions& given) {
  CommunicatorOptions options = given;
  if (options.chunk == 0) options.chunk = kDefaultChunk;
  check(options);
  options.chunk = options.chunk / kAlignment * kAlignment;
  std::vector<std::string> complaints;
  const Settings settings = load_settings(&complaints);
  if (settings.secret_unreadable) {
    throw std::runtime_error("the job's secret in " + settings.secret_file +
                             " cannot be read, and without it nobody would be authenticated: "
                             "correct MEGASCALE_SECRET_FILE");
  }
  auto rendezvous = std::make_unique<Rendezvous>(
      RendezvousOptions{options.rank, options.ranks, options.rendezvous, settings.secret, options.timeout});
  try {
    const Agreement agreement = agree(*rendezvous, options);
    auto context = attach(options.plugin.empty() ? own_plugin() : options.plugin, agreement.id);
    const int device = choose_device(*context, options);
    check_device(*context, options, device);
    Wires wires = connect_all(*context, *rendezvous,
                              {options.rank, options.ranks, options.rings, device, options.timeout});
    auto engine = std::make_shared<Engine>(std::move(rendezvous), std::move(context), std::move(wires),
                                           EngineOptions{options.rank, options.ranks, options.chunk,
                                                         options.progress_thread, options.stall_timeout});
    return std::unique_ptr<Communicator>(new Communicator(options, std::move(engine)));
  } catch (const std::exception& error) {
    if (rendezvous && !rendezvous->failed()) {
      rendezvous->report_failure(
          {options.rank, "rank " + std::to_string(options.rank) + " could not start: " + error.what()});
    }
    throw;
  }
}

CommunicatorOptions options_from_environment() {
  std::vector<std::string> complaints;
  const Settings settings = load_settings(&complaints);
  CommunicatorOptions options;
  const bool any = settings.rank >= 0 || settings.ranks > 0 || !settings.rendezvous.empty();
  if (!any) return options;
  std::string missing;
  auto need = [&](bool there, const char* name) {
    if (!there) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need(settings.rank >= 0, "MEGASCALE_RANK");
  need(settings.ranks > 0, "MEGASCALE_RANKS");
  need(!settings.rendezvous.empty() || settings.ranks == 1, "MEGASCALE_RENDEZVOUS");
  if (!missing.empty()) {
    throw std::runtime_error("the launch is incomplete or wrong: " + missing +
                             " is missing or out of range. Each rank needs MEGASCALE_RANK (0 to ranks-1), "
                             "MEGASCALE_RANKS and MEGASCALE_RENDEZVOUS (host:port, the same for all)");
  }
  options.rank = settings.rank;
  options.ranks = settings.ranks;
  options.local_rank = settings.local_rank >= 0 ? settings.local_rank : settings.rank;
  options.rendezvous = settings.rendezvous;
  check(options);
  return options;
}

}  // namespace megascale::host
